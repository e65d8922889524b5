// OpenAI's package in a page of another origin. Runs in a browser, with what the test passes.
async ({ url, key, audio, pcm }) => {
  const { default: OpenAI } = await import("/openai/index.mjs");
  const { OpenAIRealtimeWebSocket } = await import("/openai/realtime/websocket.mjs");
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const settings = { baseURL: `${url}/v1`, maxRetries: 0, dangerouslyAllowBrowser: true };
  const client = new OpenAI({ ...settings, apiKey: key });
  const file = () => new File([bytesOf(audio)], "speech.ogg", { type: "audio/ogg" });
  const create = (more) =>
    client.audio.transcriptions.create({ file: file(), model: "whisper-1", ...more });

  const { data, request_id } = await create({}).withResponse();
  const events = [];
  for await (const event of await create({ stream: true })) events.push(event);
  const refused = await create({ nbest: 1000 }).catch((error) => [error.status, error.param]);
  const locked = await client
    .withOptions({ apiKey: "wrong" })
    .models.list()
    .catch((error) => error.status);

  const input = { turn_detection: null, transcription: { model: "whisper-1" } };
  const session = { type: "transcription", audio: { input } };
  const secret = await client.realtime.clientSecrets.create({ session });
  const spoken = await new Promise((resolve, reject) => {
    const live = new OpenAIRealtimeWebSocket(
      { intent: "transcription" },
      new OpenAI({ ...settings, apiKey: secret.value }),
    );
    live.on("error", reject);
    live.on("session.created", () => {
      const samples = bytesOf(pcm);
      for (let at = 0; at < samples.length; at += 4800) {
        const piece = btoa(String.fromCharCode(...samples.subarray(at, at + 4800)));
        live.send({ type: "input_audio_buffer.append", audio: piece });
      }
      live.send({ type: "input_audio_buffer.commit" });
    });
    live.on("conversation.item.input_audio_transcription.completed", (event) => {
      resolve({ text: event.transcript, protocol: live.socket.protocol });
      live.close();
    });
  });
  return { text: data.text, id: request_id, events, refused, locked, spoken };
}
