"""LiveKit and Pipecat, as they are and in a Python of theirs.

    python voice_agents.py http://HOST:PORT/v1

They speak a text by their OpenAI services. Prints a line of JSON for each: its seconds of audio.

    python voice_agents.py HOST:PORT FILE.wav

They hear a file of 16 kHz and speak by their NVIDIA services. Prints a line of JSON for each: what
was heard, or seconds of audio.
"""

# mypy: ignore-errors
import asyncio
import json
import sys
import wave

TEXT = "Hello there. It works, and the rest is still being made."
RATE = 24_000
HEARD_RATE = 16_000


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


async def livekit_hears(server: str, chunks: list[bytes]) -> str:
    from livekit import rtc
    from livekit.plugins import nvidia

    stream = nvidia.STT(server=server, use_ssl=False, api_key="any", model="").stream()
    for data in chunks:
        stream.push_frame(rtc.AudioFrame(data, HEARD_RATE, 1, len(data) // 2))
    stream.end_input()
    events = [event async for event in stream]
    finals = [event for event in events if event.type == "final_transcript"]
    return " ".join(event.alternatives[0].text.strip() for event in finals)


async def livekit_speaks(server: str) -> float:
    from livekit.plugins import nvidia

    speaker = nvidia.TTS(server=server, use_ssl=False, api_key="any")
    stream = speaker.stream()
    stream.push_text(TEXT)
    stream.end_input()
    frames = [event.frame.samples_per_channel async for event in stream]
    return sum(frames) / speaker.sample_rate


async def pipecat_hears(server: str, chunks: list[bytes]) -> str:
    from pipecat.frames.frames import InputAudioRawFrame, TranscriptionFrame
    from pipecat.pipeline.worker import PipelineParams
    from pipecat.services.nvidia.stt import NvidiaSTTService
    from pipecat.tests.utils import SleepFrame, run_test

    service = NvidiaSTTService(server=server, use_ssl=False, api_key="any")
    sent = [InputAudioRawFrame(data, HEARD_RATE, 1) for data in chunks]
    params = PipelineParams(audio_in_sample_rate=HEARD_RATE)
    # The end of the pipeline drops what comes later.
    frames, _ = await run_test(
        service, frames_to_send=[*sent, SleepFrame(sleep=15)], pipeline_params=params
    )
    return " ".join(frame.text.strip() for frame in frames if isinstance(frame, TranscriptionFrame))


async def pipecat_speaks(server: str) -> float:
    from pipecat.frames.frames import TTSAudioRawFrame, TTSSpeakFrame
    from pipecat.services.nvidia.tts import NvidiaTTSService
    from pipecat.tests.utils import SleepFrame, run_test

    service = NvidiaTTSService(server=server, use_ssl=False, api_key="any", sample_rate=RATE)
    sent = [TTSSpeakFrame(TEXT), SleepFrame(sleep=10)]
    frames, _ = await run_test(service, frames_to_send=sent)
    audio = [frame.audio for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    return len(b"".join(audio)) / (2 * RATE)


async def by_nvidia(server: str, path: str) -> None:
    with wave.open(path) as file:
        assert file.getframerate() == HEARD_RATE
        chunks = [*iter(lambda: file.readframes(HEARD_RATE // 10), b"")]
    print(json.dumps({"livekit hears": await livekit_hears(server, chunks)}))
    print(json.dumps({"livekit": await livekit_speaks(server)}))
    print(json.dumps({"pipecat hears": await pipecat_hears(server, chunks)}))
    print(json.dumps({"pipecat": await pipecat_speaks(server)}))


async def main(url: str) -> None:
    print(json.dumps({"livekit": await livekit(url)}))
    print(
        json.dumps(
            {"livekit, tts-1, pcm": await livekit(url, model="tts-1", response_format="pcm")}
        )
    )
    print(json.dumps({"pipecat": await pipecat(url)}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]) if len(sys.argv) == 2 else by_nvidia(*sys.argv[1:]))
