// Recordings, live audio and speech by Deepgram's package. Usage: node deepgram.mjs URL KEY FILE PCM.
// FILE is a recording, PCM the same at 16 kHz. Writes what came as JSON.
import { createReadStream, readFileSync } from "node:fs";
import { DeepgramClient, DeepgramError } from "@deepgram/sdk";

const [url, key, path, pcm] = process.argv.slice(2);
const BYTES = 8000;
const socketUrl = url.replace("http", "ws");
const environment = { base: url, production: socketUrl, agent: socketUrl, agentRest: url };
const made = (apiKey) => new DeepgramClient({ apiKey, environment, maxRetries: 0 });
const client = made(key);
const answers = {};

const transcribe = (by) => by.listen.v1.media.transcribeFile(createReadStream(path), { model: "nova-3", punctuate: true });
const response = await transcribe(client);
answers.file = response.results.channels[0].alternatives[0];

try {
  await transcribe(made("wrong"));
} catch (error) {
  if (!(error instanceof DeepgramError)) throw error;
  answers.error = { status: error.statusCode, ...error.body };
}

const query = { model: "nova-3", encoding: "linear16", sample_rate: "16000", punctuate: "true" };
const live = await client.listen.v1.connect(query);
live.connect();
await live.waitForOpen();
const audio = readFileSync(pcm);
for (let at = 0; at < audio.length; at += BYTES) live.sendMedia(audio.subarray(at, at + BYTES));
live.sendKeepAlive({ type: "KeepAlive" });
live.sendCloseStream({ type: "CloseStream" });
answers.live = [];
for await (const message of live) {
  answers.live.push(message);
  if (message.type === "Metadata") break;
}

const audioOf = await client.speak.v1.audio.generate({ text: "Hello there.", encoding: "linear16", container: "none" });
answers.speech = (await audioOf.arrayBuffer()).byteLength;

const speaker = await client.speak.v1.connect({ model: "aura-2-thalia-en", encoding: "linear16", sample_rate: "24000" });
speaker.connect();
await speaker.waitForOpen();
speaker.sendText({ type: "Speak", text: "Hello there." });
speaker.sendFlush({ type: "Flush" });
answers.spoken = [];
for await (const message of speaker) {
  answers.spoken.push(message.type in { Metadata: 0, Flushed: 0, Cleared: 0 } ? message.type : message.size ?? message.byteLength);
  if (message.type === "Flushed") speaker.sendClear({ type: "Clear" });
  if (message.type === "Cleared") break;
}
console.log(JSON.stringify(answers));
process.exit(0);
