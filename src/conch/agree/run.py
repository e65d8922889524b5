"""Have recordings transcribed twice, several at once, and note what was heard."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from conch.agree.inputs import Clip
from conch.agree.journal import Entry, Journal, stamp_of
from conch.agree.stretches import Side, by_segment, whole
from conch.bulk.inputs import read_audio
from conch.bulk.sending import Sender
from conch.wire.errors import AgreeError, OptionError
from conch.wire.result import Transcript


@dataclass(frozen=True, slots=True)
class Recogniser:
    """One of the two."""

    side: Side
    options: Mapping[str, Any]
    """Options of its requests that differ from the server's defaults."""
    url: str
    """Address of its server."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What is the same for all recordings of a run."""

    a: Recogniser
    b: Recogniser
    by: Literal["file", "segment"] = "file"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request."""
    jobs: int = 4
    """Recordings in flight."""
    timeout_s: float = 3600.0
    """Seconds for one request."""
    patience_s: float = 300.0
    """Seconds to wait for a server that is gone."""

    @property
    def language(self) -> str:
        """Language that an option names; empty if none does."""
        named = (str(item.options.get("language", "auto")) for item in (self.a, self.b))
        return next((item for item in named if item != "auto"), "")


class Events(Protocol):
    """What is told while a run goes on."""

    def done(self, entry: Entry) -> None:
        """Tell of a recording that was heard, or failed."""
        ...


async def hear(
    agreement: Agreement, clips: Sequence[Clip], journal: Journal, events: Events
) -> None:
    """Have both recognisers transcribe the recordings, and append each to the journal.

    Raises:
        AgreeError: a server refuses a recogniser's options, or the journal cannot be written.
        BulkError: a server lacks a model, or is gone and does not come back.
    """
    async with aclosing(_Pair(agreement)) as pair:
        waiting = iter(clips)
        jobs = [
            asyncio.create_task(_work(pair, waiting, journal, events))
            for _ in range(min(agreement.jobs, len(clips)))
        ]
        try:
            await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)


async def _work(pair: "_Pair", clips: Iterator[Clip], journal: Journal, events: Events) -> None:
    # The jobs share one iterator: a free one takes the next recording.
    for clip in clips:
        entry = await pair.hear(clip)
        journal.append(entry)
        events.done(entry)


class _Pair:
    """Both recognisers, connected."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        senders = {url: self._sender(url) for url in (agreement.a.url, agreement.b.url)}
        self._senders = senders

    def _sender(self, url: str) -> Sender:
        async def address(lost: str) -> str:
            return url

        agreement = self._agreement
        return Sender(
            address,
            headers=agreement.headers,
            jobs=agreement.jobs,
            timeout_s=agreement.timeout_s,
            patience_s=agreement.patience_s,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        for sender in self._senders.values():
            await sender.close()

    async def hear(self, clip: Clip) -> Entry:
        """Return what both heard, or why one of them did not."""
        stamp = await asyncio.to_thread(stamp_of, clip.path)
        read: list[bytes] = []

        async def audio() -> bytes:
            if not read:
                read.append(await asyncio.to_thread(read_audio, clip.source))
            return read[0]

        heard: list[Transcript] = []
        for recogniser in (self._agreement.a, self._agreement.b):
            answer = await self._senders[recogniser.url].transcribe(audio, recogniser.options)
            if isinstance(answer.error, OptionError):
                # It is not the recording's fault, and so all others would fail too.
                raise AgreeError(f"--{recogniser.side}: {answer.error}")
            if answer.transcript is None:
                reason = f"{recogniser.side}: {answer.error}" if read else str(answer.error)
                return Entry(clip.source.path, stamp, error=reason)
            heard.append(answer.transcript)
        a, b = heard
        language = clip.language or self._agreement.language
        is_whole = self._agreement.by == "file"
        found = [whole(a, b, language)] if is_whole else by_segment(a, b, language)
        return Entry(clip.source.path, stamp, tuple(found))
