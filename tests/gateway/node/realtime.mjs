// A live session by OpenAI's package. Usage: node realtime.mjs URL KEY FILE KIND.
// FILE is PCM16 at 24 kHz; KIND is ws, or websocket for the class that browsers take, with a secret.
// Writes all events as JSON.
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const [url, key, path, kind] = process.argv.slice(2);
const BYTES = 4800;
const session = {
  type: "transcription",
  audio: {
    input: {
      format: { type: "audio/pcm", rate: 24000 },
      transcription: { model: "whisper-1", language: "en" },
      turn_detection: { type: "server_vad", silence_duration_ms: 500 },
    },
  },
};
let client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
let live;
if (kind === "ws") {
  live = new OpenAIRealtimeWS({ intent: "transcription" }, client);
} else {
  const secret = await client.realtime.clientSecrets.create({ session });
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: secret.value });
  live = new OpenAIRealtimeWebSocket({ intent: "transcription" }, client);
}
const events = [];
live.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
live.on("event", (event) => events.push(event));
live.on("session.created", () => live.send({ type: "session.update", session }));
live.on("session.updated", () => {
  const audio = readFileSync(path);
  for (let at = 0; at < audio.length; at += BYTES) {
    const piece = audio.subarray(at, at + BYTES).toString("base64");
    live.send({ type: "input_audio_buffer.append", audio: piece });
  }
});
live.on("conversation.item.input_audio_transcription.completed", () => {
  console.log(JSON.stringify(events));
  live.close();
});
