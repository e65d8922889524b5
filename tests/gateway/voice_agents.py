"""LiveKit and Pipecat, as they are and in a Python of theirs.

    python voice_agents.py http://HOST:PORT/v1

They speak a text by their OpenAI services. Prints a line of JSON for each: its seconds of audio.

    python voice_agents.py HOST:PORT FILE.wav

They hear a file of 16 kHz and speak by their NVIDIA services. Prints a line of JSON for each: what
was heard, or seconds of audio.

    python voice_agents.py http://HOST:PORT FILE.wav

The same by their Deepgram services, and how often LiveKit said that speech begins and ends.
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
    from livekit.plugins import nvidia

    stream = nvidia.STT(server=server, use_ssl=False, api_key="any", model="").stream()
    return (await heard(stream, chunks))[0]


def rtc_frames(chunks: list[bytes]) -> list:
    from livekit import rtc

    return [rtc.AudioFrame(data, HEARD_RATE, 1, len(data) // 2) for data in chunks]


async def heard(stream, chunks: list[bytes]) -> tuple[str, list[str]]:
    """Return the final texts of a stream of LiveKit, and the types of its events."""
    for frame in rtc_frames(chunks):
        stream.push_frame(frame)
    stream.end_input()
    events = [event async for event in stream]
    finals = [event for event in events if event.type == "final_transcript"]
    text = " ".join(event.alternatives[0].text.strip() for event in finals)
    return text, [str(event.type.value) for event in events]


async def livekit_speaks(server: str) -> float:
    from livekit.plugins import nvidia

    return await spoken(nvidia.TTS(server=server, use_ssl=False, api_key="any"))


async def spoken(speaker) -> float:
    """Return the seconds of a text that a service of LiveKit speaks."""
    stream = speaker.stream()
    stream.push_text(TEXT)
    stream.end_input()
    frames = [event.frame.samples_per_channel async for event in stream]
    return sum(frames) / speaker.sample_rate


async def pipecat_hears(server: str, chunks: list[bytes]) -> str:
    from pipecat.services.nvidia.stt import NvidiaSTTService

    service = NvidiaSTTService(server=server, use_ssl=False, api_key="any")
    return await pipecat_heard(service, chunks)


async def pipecat_heard(service, chunks: list[bytes]) -> str:
    from pipecat.frames.frames import InputAudioRawFrame, TranscriptionFrame
    from pipecat.pipeline.worker import PipelineParams
    from pipecat.tests.utils import SleepFrame, run_test

    sent = [InputAudioRawFrame(data, HEARD_RATE, 1) for data in chunks]
    params = PipelineParams(audio_in_sample_rate=HEARD_RATE)
    # The end of the pipeline drops what comes later.
    frames, _ = await run_test(
        service,
        frames_to_send=[*sent, SleepFrame(sleep=15)],
        pipeline_params=params,
        start_timeout=60,
    )
    return " ".join(frame.text.strip() for frame in frames if isinstance(frame, TranscriptionFrame))


async def pipecat_speaks(server: str) -> float:
    from pipecat.services.nvidia.tts import NvidiaTTSService

    service = NvidiaTTSService(server=server, use_ssl=False, api_key="any", sample_rate=RATE)
    return await pipecat_spoken(service)


async def pipecat_spoken(service) -> float:
    from pipecat.frames.frames import TTSAudioRawFrame, TTSSpeakFrame
    from pipecat.tests.utils import SleepFrame, run_test

    sent = [TTSSpeakFrame(TEXT), SleepFrame(sleep=10)]
    frames, _ = await run_test(service, frames_to_send=sent, start_timeout=60)
    audio = [frame.audio for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    return len(b"".join(audio)) / (2 * RATE)


async def by_deepgram(url: str, path: str) -> None:
    import aiohttp
    from livekit.plugins import deepgram
    from pipecat.services.deepgram.flux.stt import DeepgramFluxSTTService
    from pipecat.services.deepgram.stt import DeepgramSTTService
    from pipecat.services.deepgram.tts import DeepgramTTSService

    chunks, address = chunks_of(path), url.replace("http", "ws")
    async with aiohttp.ClientSession() as session:
        own = {"api_key": "any", "http_session": session}
        listener = deepgram.STT(base_url=f"{url}/v1/listen", **own)
        text, events = await heard(listener.stream(), chunks)
        print(json.dumps({"livekit hears": text}))
        print(json.dumps({name: name in events for name in ("start_of_speech", "end_of_speech")}))
        flux = deepgram.STTv2(base_url=f"{address}/v2/listen", **own)
        text, events = await heard(flux.stream(), chunks)
        print(json.dumps({"livekit hears turns": text}))
        print(json.dumps({"a turn begins": "start_of_speech" in events}))
        frames = rtc_frames(chunks)
        whole = await listener.recognize(frames)
        print(json.dumps({"livekit hears a recording": whole.alternatives[0].text}))
        speaker = deepgram.TTS(base_url=f"{url}/v1/speak", **own)
        print(json.dumps({"livekit": await spoken(speaker)}))
        async with speaker.synthesize(TEXT) as stream:
            made = [event.frame.samples_per_channel async for event in stream]
        print(json.dumps({"livekit, by POST": sum(made) / speaker.sample_rate}))
        await speaker.aclose()
    service = DeepgramSTTService(api_key="any", base_url=address)
    print(json.dumps({"pipecat hears": await pipecat_heard(service, chunks)}))
    turns = DeepgramFluxSTTService(api_key="any", url=f"{address}/v2/listen")
    print(json.dumps({"pipecat hears turns": await pipecat_heard(turns, chunks)}))
    speaking = DeepgramTTSService(api_key="any", base_url=address, sample_rate=RATE)
    print(json.dumps({"pipecat": await pipecat_spoken(speaking)}))


def chunks_of(path: str) -> list[bytes]:
    with wave.open(path) as file:
        assert file.getframerate() == HEARD_RATE
        return [*iter(lambda: file.readframes(HEARD_RATE // 10), b"")]


async def by_nvidia(server: str, path: str) -> None:
    chunks = chunks_of(path)
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
    work = by_deepgram if sys.argv[1].startswith("http") else by_nvidia
    asyncio.run(main(*sys.argv[1:]) if len(sys.argv) == 2 else work(*sys.argv[1:]))
