"""A conversation: it listens, answers aloud while the answer is written, and stops when you speak.

How to run it, with a mono recording in place of a microphone:

    conch serve &
    python examples/conversation.py talk.wav --play "aplay -q -t raw -f S16_LE -r 24000"
"""

import argparse
import asyncio
from collections.abc import AsyncIterator

import soundfile

from conch.client import AsyncClient


async def answer(text: str) -> AsyncIterator[str]:
    """Write an answer piece by piece: put your language model here."""
    for word in f"You said: {text} What shall I do?".split():
        yield f"{word} "


async def say(client: AsyncClient, text: str, play: str) -> None:
    """Answer a text aloud, no faster than it is heard, until cancelled."""
    player = await asyncio.create_subprocess_shell(f"exec {play}", stdin=asyncio.subprocess.PIPE)
    assert player.stdin
    try:
        async for piece in client.synthesize_stream(answer(text), format="pcm_s16"):
            player.stdin.write(piece.audio)
            await asyncio.sleep(0.9 * len(piece.audio) / 48_000)
        await player.communicate(b"")
        print("(said)", flush=True)
    except asyncio.CancelledError:
        player.kill()
        print("(interrupted)", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    parser.add_argument("--play", required=True, help="a program that plays samples of stdin")
    args = parser.parse_args()
    rate, speaking = soundfile.info(args.file).samplerate, asyncio.ensure_future(asyncio.sleep(0))
    async with AsyncClient(args.url) as client, client.live(sample_rate=rate) as stream:
        for chunk in soundfile.blocks(args.file, rate // 10, dtype="int16"):
            await asyncio.sleep(0.1)
            heard = await stream.send(chunk)
            if heard.utterance and heard.utterance.words:
                speaking.cancel()
            for segment in heard.segments:
                if segment.passes == 2 and segment.text:
                    print(f"you: {segment.text}", flush=True)
                    speaking = asyncio.create_task(say(client, segment.text, args.play))
        await speaking


if __name__ == "__main__":
    asyncio.run(main())
