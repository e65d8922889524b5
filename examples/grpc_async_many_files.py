"""Transcribe many files at the same time over one gRPC connection.

How to run it:

    conch serve &
    python examples/grpc_async_many_files.py recordings/*.flac
"""

import argparse
import asyncio

from conch.client import AsyncClient
from conch.wire.errors import TranscriptionError


async def transcribe(client: AsyncClient, slots: asyncio.Semaphore, path: str) -> str:
    async with slots:
        try:
            return (await client.transcribe(path)).text
        except TranscriptionError as error:
            # One bad file is that file's business.
            return f"failed: {error}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    parser.add_argument("--in-flight", type=int, default=16)
    args = parser.parse_args()

    slots = asyncio.Semaphore(args.in_flight)
    async with AsyncClient(args.url) as client:
        texts = await asyncio.gather(*(transcribe(client, slots, path) for path in args.files))
    for path, text in zip(args.files, texts, strict=True):
        print(f"{path}\t{text}")


if __name__ == "__main__":
    asyncio.run(main())
