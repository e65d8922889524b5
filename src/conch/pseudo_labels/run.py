"""Have recordings transcribed twice, several at once, and keep the texts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

from conch.bulk.inputs import Source, read_audio
from conch.bulk.sending import Sender, Sending
from conch.client.aio import all_of
from conch.pseudo_labels.compare import Side, by_segment, whole
from conch.pseudo_labels.journal import Entry, Journal, stamp_of
from conch.pseudo_labels.labels import problem_of_name
from conch.wire.errors import BulkError, OptionError
from conch.wire.result import Transcript


@dataclass(frozen=True, slots=True)
class Recogniser:
    """One of the two recognisers."""

    side: Side
    options: Mapping[str, Any]
    """Options of its requests that differ from the server's defaults."""
    url: str


async def transcribe(
    sources: Sequence[Source],
    recognisers: tuple[Recogniser, Recogniser],
    by: Literal["file", "segment"],
    sending: Sending,
    journal: Journal,
    done: Callable[[Entry], None],
) -> None:
    """Have both recognisers transcribe the recordings, and append each to the journal.

    The `jobs` of `sending` are recordings in flight. `done` is called with each entry after it was
    written.
    """
    urls = {item.url for item in recognisers}
    senders = {url: Sender(repeat(url).__next__, sending) for url in urls}
    # The jobs share one iterator: a free one takes the next recording.
    waiting = iter(sources)

    async def work() -> None:
        for source in waiting:
            entry = await _entry(source, recognisers, senders, journal, by)
            journal.append(entry)
            done(entry)

    try:
        await all_of(work() for _ in range(min(sending.jobs, len(sources))))
    finally:
        for sender in senders.values():
            await sender.close()


async def _entry(
    source: Source,
    recognisers: tuple[Recogniser, Recogniser],
    senders: Mapping[str, Sender],
    journal: Journal,
    by: Literal["file", "segment"],
) -> Entry:
    """Return the texts of both, or why one of them has none."""
    stamp = await asyncio.to_thread(stamp_of, source)
    if problem := problem_of_name(source, journal.path):
        return Entry(source.path, stamp, error=problem)
    read: list[bytes] = []

    async def audio() -> bytes:
        if not read:
            read.append(await asyncio.to_thread(read_audio, source))
        return read[0]

    transcripts: list[Transcript] = []
    for recogniser in recognisers:
        answer = await senders[recogniser.url].transcribe(audio, recogniser.options)
        if isinstance(answer.error, OptionError):
            # All recordings would fail by it.
            raise BulkError(f"--{recogniser.side}: {answer.error}")
        if answer.transcript is None:
            reason = f"{recogniser.side}: {answer.error}" if read else str(answer.error)
            return Entry(source.path, stamp, error=reason)
        transcripts.append(answer.transcript)
    a, b = transcripts
    named = [str(item.options.get("language", "auto")) for item in recognisers]
    language = source.columns.get("language", "").strip() or next(
        (item for item in named if item != "auto"), ""
    )
    found = [whole(a, b, language)] if by == "file" else by_segment(a, b, language)
    return Entry(source.path, stamp, tuple(found))
