"""Measure the waits of a crowd, and of a short recording during a long one.

A crowd of clients sends the same recording at the same moment. Some are refused; the waits of the
others and the time until a refusal have their own figures. The short recording is sent repeatedly,
first alone and then while the long one is recognised, so that both medians have the same number.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import soundfile

from conch.bench.figures import Latency, latency_ms, rtfx
from conch.bench.header import Flat, Header, origin
from conch.bench.servers import server_of, triton_version
from conch.cli.bench import URL, settings_of
from conch.cli.demo import SPEECH
from conch.client import AsyncClient
from conch.scoring.error_rates import number, table
from conch.wire.errors import ConchError, OverloadedError
from lab.command import Command, lab_header, reporting
from lab.waveforms import audio_file

LANGUAGE = "en"
PATIENT_S = 3600.0
"""Longest wait for an answer, in seconds; the server does not know it."""
WARM_UP = 12
"""Requests before the first figure; the server learns its own speed from them."""
PAUSE_S = 0.2
"""Between two short recordings, in seconds."""


LATE_S = 2.0
"""Seconds after the crowd at which the first late request is sent."""

Outcome = tuple[float, str | ConchError]
"""The time until an answer, in seconds, and its text or the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessBenchmark:
    clients: int = 300
    seconds: int = 10
    short: int = 5
    long: int = 3600
    times: int = 12
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    accepted: int
    refused: int
    failed: int
    wrong: int
    """Answers whose text is not that of most."""
    wall_s: float
    rtfx: float | None
    wait: Latency
    """Of the accepted."""
    refusal: Latency
    """Time until a refusal, of those that were sent with all others."""
    late_refusal: Latency
    """Time until a refusal, of those that were sent one by one while the crowd was served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class During:
    alone: Latency
    during: Latency
    sent_during: int
    """Number of times that the short one was done before the long one."""
    long_s: float

    @property
    def ratio(self) -> float | None:
        if self.during.p50 is None or self.alone.p50 is None:
            return None
        return self.during.p50 / self.alone.p50


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessReport:
    header: Flat[Header]
    seconds: int
    crowd: Crowd
    during: During


def run(benchmark: FairnessBenchmark) -> FairnessReport:
    header = lab_header("fairness", benchmark)
    with server_of(benchmark.url) as (url, _):
        crowd, during = asyncio.run(_measured(benchmark, url))
        header = header.with_triton(triton_version(url))
    return FairnessReport(header=header, seconds=benchmark.seconds, crowd=crowd, during=during)


def markdown(report: FairnessReport) -> str:
    crowd, during = report.crowd, report.during
    crowded = table(
        (
            *("crowd", "accepted", "refused", "wrong", "p50 ms", "p95 ms"),
            *("refusal p95 ms", "of late ones", "seconds", "RTFx"),
        ),
        [
            (
                f"{crowd.accepted + crowd.refused + crowd.failed} clients",
                *(str(crowd.accepted), str(crowd.refused), str(crowd.wrong + crowd.failed)),
                *(number(crowd.wait.p50, 0), number(crowd.wait.p95, 0)),
                *(number(crowd.refusal.p95, 0), number(crowd.late_refusal.p95, 0)),
                *(number(crowd.wall_s), number(crowd.rtfx)),
            )
        ],
    )
    shorts = table(
        ("a short recording", "times", "p50 ms", "p95 ms"),
        [
            ("alone", "", number(during.alone.p50, 0), number(during.alone.p95, 0)),
            (
                "during a long one",
                str(during.sent_during),
                number(during.during.p50, 0),
                number(during.during.p95, 0),
            ),
        ],
    )
    took = (
        f"The long one took {during.long_s:.1f} s; ratio of the medians: {number(during.ratio, 2)}."
    )
    sent = crowd.accepted + crowd.refused + crowd.failed
    come_from = origin(report.header, f"{sent} recordings at once", sent * report.seconds)
    return "\n\n".join((come_from, crowded, shorts, took))


def speech_of(seconds: int) -> bytes:
    """Return a WAV file of this many seconds: the sample of `conch demo`, repeated."""
    samples, rate = soundfile.read(SPEECH, dtype="int16")
    return audio_file(np.resize(samples, seconds * rate), rate)


def crowd_of(
    outcomes: Sequence[Outcome], late: Sequence[Outcome], seconds: float, wall_s: float
) -> Crowd:
    """Return what became of a crowd; `late` are those that were sent while it was served."""
    texts = Counter(answer for _, answer in outcomes if isinstance(answer, str))
    usual = texts.most_common(1)[0][1] if texts else 0
    waits = [wait_s for wait_s, answer in outcomes if isinstance(answer, str)]
    refusals = _refusals(outcomes)
    return Crowd(
        accepted=len(waits),
        refused=len(refusals),
        failed=len(outcomes) - len(waits) - len(refusals),
        wrong=len(waits) - usual,
        wall_s=round(wall_s, 3),
        rtfx=rtfx(seconds * len(waits), wall_s),
        wait=latency_ms(waits),
        refusal=latency_ms(refusals),
        late_refusal=latency_ms(_refusals(late)),
    )


async def _measured(benchmark: FairnessBenchmark, url: str) -> tuple[Crowd, During]:
    crowded, short, long = map(speech_of, (benchmark.seconds, benchmark.short, benchmark.long))
    connections = benchmark.clients + 1
    async with AsyncClient(url, timeout_s=PATIENT_S, connections=connections) as client:
        for _ in range(WARM_UP):
            await _sent(client, short)
        alone = [await _sent(client, short) for _ in range(benchmark.times)]
        under_way = asyncio.create_task(_sent(client, long))
        await asyncio.sleep(1)
        during: list[Outcome] = []
        while not under_way.done() and len(during) < benchmark.times:
            outcome = await _sent(client, short)
            if not under_way.done():
                during.append(outcome)
            await asyncio.sleep(PAUSE_S)
        long_s, _ = await under_way
        began = time.perf_counter()
        late = asyncio.create_task(_late(client, crowded, benchmark.times))
        outcomes = await asyncio.gather(*(_sent(client, crowded) for _ in range(benchmark.clients)))
        wall_s = time.perf_counter() - began
        crowd = crowd_of(outcomes, await late, benchmark.seconds, wall_s)
    return crowd, During(
        alone=_latency(alone),
        during=_latency(during),
        sent_during=len(during),
        long_s=round(long_s, 3),
    )


async def _late(client: AsyncClient, audio: bytes, times: int) -> list[Outcome]:
    """Send requests to a server that is full, one by one, until one is accepted."""
    await asyncio.sleep(LATE_S)
    outcomes: list[Outcome] = []
    while len(outcomes) < times and not (outcomes and isinstance(outcomes[-1][1], str)):
        outcomes.append(await _sent(client, audio))
        await asyncio.sleep(PAUSE_S)
    return outcomes


def _refusals(outcomes: Sequence[Outcome]) -> list[float]:
    return [wait_s for wait_s, answer in outcomes if isinstance(answer, OverloadedError)]


async def _sent(client: AsyncClient, audio: bytes) -> Outcome:
    began = time.perf_counter()
    try:
        answer: str | ConchError = (await client.transcribe(audio, language=LANGUAGE)).text
    except ConchError as error:
        answer = error
    return time.perf_counter() - began, answer


def _latency(outcomes: Sequence[Outcome]) -> Latency:
    return latency_ms([wait_s for wait_s, answer in outcomes if isinstance(answer, str)])


COMMAND = Command(
    run=reporting(
        lambda args: run(settings_of(FairnessBenchmark, args)),
        markdown,
        has_failed=lambda report: bool(report.crowd.wrong or report.crowd.failed),
    ),
    description="Send one recording from many clients at once, and a short one while a long one "
    "is recognised. All recordings are the sample of conch demo, repeated.",
    epilog="""
examples:
  python -m lab fairness
  python -m lab fairness --url 127.0.0.1:8000 --clients 100 --long 420
""",
    flags="""
--clients N=300  clients of the crowd
--seconds N=10   of each recording of the crowd
--short N=5      seconds of the short recording
--long N=3600    seconds of the long one
--times N=12     times that the short one is sent, alone and during the long one
"""
    + URL,
    codes="0 measured; 1 not measured, or an answer was wrong; 2 wrong usage",
)
