// Recordings by OpenAI's package. Usage: node files.mjs URL KEY FILE; writes what came as JSON.
import { createReadStream } from "node:fs";
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError, toFile } from "openai";

const [url, key, path] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

const create = (more) =>
  client.audio.transcriptions.create({ file: createReadStream(path), model: "whisper-1", ...more });

async function errorOf(kind, request) {
  try {
    await request();
  } catch (error) {
    if (!(error instanceof kind)) throw error;
    const { status, param, code, type, message, requestID } = error;
    return { status, param, code, type, message, requestID };
  }
  throw new Error(`no ${kind.name}`);
}

const answers = { version: process.versions.node };
for (const format of ["json", "text", "srt", "vtt"]) {
  answers[format] = await create({ response_format: format });
}
answers.verbose_json = await create({
  response_format: "verbose_json",
  timestamp_granularities: ["word", "segment"],
});
answers.events = [];
for await (const event of await create({ stream: true, include: ["logprobs"] })) {
  answers.events.push(event);
}
answers.options = await create({ response_format: "conch", nbest: 2, rescore: true });
const { response, request_id } = await create({}).withResponse();
answers.ids = [response.headers.get("x-request-id"), request_id];
const spoken = await client.audio.speech.create({
  model: "tts-1",
  voice: "alloy",
  input: "Hello there.",
  response_format: "pcm",
});
answers.speech = (await spoken.arrayBuffer()).byteLength;
answers.models = [];
for await (const model of client.models.list()) answers.models.push(model.id);
answers.errors = {
  option: await errorOf(BadRequestError, () => create({ nbest: 1000 })),
  model: await errorOf(NotFoundError, () => create({ model: "gpt-9-transcribe" })),
  noise: await errorOf(BadRequestError, async () =>
    create({ file: await toFile(Buffer.from("no sound ".repeat(9)), "talk.wav") }),
  ),
  key: await errorOf(AuthenticationError, () => client.withOptions({ apiKey: "wrong" }).models.list()),
};
console.log(JSON.stringify(answers));
