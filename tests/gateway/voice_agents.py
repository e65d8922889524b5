"""LiveKit and Pipecat speak a text by their OpenAI services as they are, in a Python of theirs.

Prints a line of JSON for each: its seconds of audio.
"""

# mypy: ignore-errors
import asyncio
import json
import sys

TEXT = "Hello there. It works, and the rest is still being made."
RATE = 24_000


async def livekit(url: str, **settings: str) -> float:
    from livekit.plugins import openai

    speaker = openai.TTS(base_url=url, api_key="any", **settings)
    async with speaker.synthesize(TEXT) as stream:
        frames = [event.frame.samples_per_channel async for event in stream]
    await speaker.aclose()
    return sum(frames) / RATE


async def pipecat(url: str) -> float:
    from pipecat.frames.frames import TTSAudioRawFrame, TTSSpeakFrame
    from pipecat.services.openai.tts import OpenAITTSService
    from pipecat.tests.utils import run_test

    service = OpenAITTSService(api_key="any", base_url=url)
    frames, _ = await run_test(service, frames_to_send=[TTSSpeakFrame(TEXT)])
    audio = [frame.audio for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    return len(b"".join(audio)) / (2 * RATE)


async def main(url: str) -> None:
    print(json.dumps({"livekit": await livekit(url)}))
    print(
        json.dumps(
            {"livekit, tts-1, pcm": await livekit(url, model="tts-1", response_format="pcm")}
        )
    )
    print(json.dumps({"pipecat": await pipecat(url)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
