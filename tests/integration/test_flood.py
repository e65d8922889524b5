"""A flood of bytes and a file that ends servers, on a server of their own; the rest is served."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from conch.gateway import GatewayConfig
from conch.recognition.config import RecognitionConfig
from lab.chaos.attacks import AHEAD, CHUNK_S, Flood, flood, poison
from lab.chaos.budget import COPIES, SENDING_COPIES, STREAM_MB, worst_case_mb
from lab.chaos.doors import Target, target_at
from lab.chaos.honest import BY_GATEWAY, BY_GRPC, LIVE, Honest, Replies
from lab.chaos.served import Serve
from lab.chaos.speech import RATE

pytestmark = pytest.mark.server

Found = TypeVar("Found")


def attacked(
    folder: Path,
    attack: Callable[[Serve, Target], Awaitable[Found]],
    kinds: tuple[str, ...],
    arguments: Sequence[str] = (),
) -> tuple[Found, Replies]:
    """Return what became of an attack, and of honest requests beside it."""

    async def main() -> tuple[Found, Replies]:
        models = ("attention", "streaming")
        serve = Serve(folder, models, arguments=arguments)
        try:
            await serve.start()
            async with target_at(serve.addresses) as target, Honest(serve.addresses) as honest:
                await honest.learn(kinds)
                async with honest.alongside(kinds) as heard:
                    found = await attack(serve, target)
                return found, heard
        finally:
            if serve.is_running:
                await serve.stop()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        pytest.param(
            Flood(files=12, file_mb=20, streams=16, seconds=5),
            ("--max-upload-mb", "80", "--max-body-mb", "25"),
            id="small",
            marks=[pytest.mark.nightly],
        ),
        pytest.param(
            Flood(),
            (),
            id="64 files",
            marks=[pytest.mark.nightly, pytest.mark.timeout(900)],
        ),
    ],
)
def test_a_flood_of_bytes_stays_in_the_budget_and_others_are_answered(
    size: Flood, arguments: Sequence[str], tmp_path: Path
) -> None:
    (sent, before_mb, peak_mb), heard = attacked(
        tmp_path,
        lambda serve, target: flood(serve, target, size),
        (BY_GRPC, BY_GATEWAY, LIVE),
        arguments,
    )
    assert sent.faults == []
    assert sent.outcomes["busy"] > 0, "more was sent than there is room for"
    assert sent.outcomes["answered"] > 0
    assert heard.wrong == []
    assert heard.right > 0
    print(f"{before_mb:.0f} to {peak_mb:.0f} MB; {sent.outcomes}; honest {heard.median_s} s")
    if arguments:  # four files fit at once; of each stream all chunks may be there
        chunks_mb = size.streams * AHEAD * CHUNK_S * RATE * 2 / 1e6
        files_mb = 4 * size.file_mb
        most_mb = COPIES * (files_mb + chunks_mb) + SENDING_COPIES * size.file_mb
        assert peak_mb - before_mb < most_mb + STREAM_MB * size.streams + files_mb
    assert peak_mb < sum(worst_case_mb(RecognitionConfig(), GatewayConfig()).values())


@pytest.mark.nightly
def test_a_file_that_ends_servers_ends_two_and_files_beside_it_are_answered(
    tmp_path: Path,
) -> None:
    sent, heard = attacked(tmp_path, poison, (BY_GATEWAY,))
    assert sent.faults == []
    assert heard.wrong == []
    assert heard.right > 0
