"""How much later an utterance of five seconds is answered because it is orchestrated.

The same utterances, one at a time, in turn, each time from another way on: by `speech` over HTTP;
without VAD by an ensemble over
HTTP; and by the components' objects in the client's process, one after the other and nothing else
(`direct`). What orchestration adds is the median of what a client of `speech` waits beyond
`direct`: the client, the protocol, Triton, its batching delay (5 ms at the attention decoder), BLS,
the road, and every copy of a tensor between processes.

The difference to the executions of the components, which Triton counts (`compute`), is told beside
it. It is the steadier one, because it is of the same request, but too small: an execution of a
Python backend begins before its tensors are copied into shared memory and ends after they are
copied out, with the hand-over to the component's process in between, so that part of what a call
costs is booked as the component's. `direct` in turn has its components in one process, in which
their runtimes share threads and caches.

All of it is in a process of its own (`python -m conch.bench.added`, see `conch.bench.child`), so
that the components' memory is given back and no library of theirs is shared with later servers.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench import child
from conch.bench.component_queues import load_components
from conch.bench.load import rotated
from conch.bench.plain_client import PlainClient
from conch.bench.recordings import decode
from conch.bench.repositories import repository_of
from conch.bench.served import model_work
from conch.bench.systems import Clip
from conch.client import AsyncClient
from conch.component import Array, Row
from conch.component.waveform import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.signals import interrupt_on_sigterm
from conch.orchestrator.offline import segment_rules
from conch.orchestrator.segmentation import Segmenter
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions

SECONDS = 5.0
REPEATS = 20
"""Times that the utterances are gone through, together."""

Answer = Callable[[str, Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """A road, and the same as an ensemble where it has no conditions."""

    name: str
    encoder: str
    decoder: str
    passed_on: tuple[str, str]
    """Outputs of the encoder that the decoder takes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ensemble: str | None = None

    @property
    def has_vad(self) -> bool:
        return bool(self.options.get("vad", True))

    @property
    def components(self) -> tuple[str, ...]:
        return (*(("vad",) if self.has_vad else ()), self.encoder, self.decoder)


_ATTENTION = {
    "encoder": "attention_encoder",
    "decoder": "attention_decoder",
    "passed_on": ("encoder_out", "encoder_out_lens"),
}
ROADS = (
    Road(name="attention", **_ATTENTION),  # type: ignore[arg-type]
    Road(
        name="attention, no VAD",
        options={"vad": False},
        ensemble="attention_ensemble",
        **_ATTENTION,  # type: ignore[arg-type]
    ),
    Road(
        name="ctc, no VAD",
        encoder="ctc_encoder",
        decoder="ctc_decoder",
        passed_on=("log_probs", "log_probs_lens"),
        # The component's own default, which is all that an ensemble can have.
        options={"vad": False, "decoder": "ctc", "beam_size": 10},
        ensemble="ctc_ensemble",
    ),
)


def of_five_seconds(clips: Sequence[Clip], count: int = 5) -> list[NDArray[np.float32]]:
    """Return the clips nearest to five seconds, cut or filled up with silence to exactly that."""
    length = round(SECONDS * SAMPLE_RATE)
    nearest = sorted(clips, key=lambda clip: abs(len(clip.waveform) - length))[:count]
    return [
        np.pad(clip.waveform[:length], (0, max(0, length - len(clip.waveform)))) for clip in nearest
    ]


def measure(clips: Sequence[Clip], repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Start a server for each road, measure, and return each road's figures; see `figures`.

    `waiting_ms` is the part of what is added that is spent in the components' queues.

    Raises:
        BenchError: the process ended early; its own message is on standard error.
    """
    job = {"paths": [str(clip.path) for clip in clips], "repeats": repeats}
    with child.running("conch.bench.added", job) as (process, messages, _):
        found = list(messages)
    if len(found) != len(ROADS):
        raise BenchError(f"the time added: its process ended early, status {process.returncode}")
    return found


def main() -> None:
    """Be the child."""
    job = child.job()
    interrupt_on_sigterm()
    paths = map(Path, job["paths"])
    clips = [Clip(path, decode(path).resampled(SAMPLE_RATE)) for path in paths]
    waveforms = of_five_seconds(clips)
    for road in ROADS:
        seconds, waiting_s = asyncio.run(_measured(road, waveforms, job["repeats"]))
        waiting_ms = round(1000 * statistics.median(waiting_s), 2)
        child.say(road=road.name, **figures(seconds), waiting_ms=waiting_ms)


def figures(seconds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return p50 in ms of each way, and of the differences to `speech`, pair by pair.

    Args:
        seconds: latencies of `speech`, its components' executions (`compute`), `direct` and
            possibly `ensemble`, the same requests each.
    """
    found: dict[str, Any] = {
        f"{way}_ms": round(1000 * statistics.median(values), 2) for way, values in seconds.items()
    }
    for way in seconds:
        if way != "speech":
            pairs = zip(seconds["speech"], seconds[way], strict=True)
            differences = [speech - other for speech, other in pairs]
            found[f"added_to_{way}_ms"] = round(1000 * statistics.median(differences), 2)
    return found


async def _measured(
    road: Road, waveforms: Sequence[NDArray[np.float32]], repeats: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the latencies of each way, and how long `speech` waited in components' queues."""
    models = ["speech", *road.components, *([road.ensemble] if road.ensemble else [])]
    queues = load_components(road.components, batched=False)
    seconds: dict[str, list[float]] = {"speech": [], "compute": [], "direct": []}
    waiting_s: list[float] = []
    with (
        repository_of(models) as repository,
        TritonServer(ServerConfig(model_repositories=(repository,), log_level="warning")) as server,
    ):
        async with AsyncClient(server.http_url) as speech, PlainClient(server.http_url, 1) as plain:

            def answer(model: str, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
                return queues[model].submit(Row(inputs)).result()

            async def ask_direct(waveform: NDArray[np.float32]) -> None:
                direct(road, waveform, answer)

            async def ask_speech(waveform: NDArray[np.float32]) -> None:
                await speech.transcribe(waveform, **road.options)

            async def ask_ensemble(waveform: NDArray[np.float32]) -> None:
                assert road.ensemble is not None
                sent = ("waveform", waveform[np.newaxis])
                await plain.infer(road.ensemble, sent, "hypotheses")

            def work_s() -> tuple[float, float]:
                work = model_work(server.http_url, road.components).values()
                return sum(item.compute_s for item in work), sum(item.queue_s for item in work)

            ways = {"direct": ask_direct, "speech": ask_speech}
            if road.ensemble:
                ways["ensemble"] = ask_ensemble
                seconds["ensemble"] = []
            for repeat in range(-1, repeats):
                waveform = waveforms[repeat % len(waveforms)]
                for way in rotated(list(ways), repeat):
                    before_s = work_s()
                    started = time.perf_counter()
                    await ways[way](waveform)
                    elapsed_s = time.perf_counter() - started
                    if repeat < 0:  # all is warmed up
                        continue
                    seconds[way].append(elapsed_s)
                    if way == "speech":
                        now_s = work_s()
                        seconds["compute"].append(now_s[0] - before_s[0])
                        waiting_s.append(now_s[1] - before_s[1])
    return seconds, waiting_s


def direct(road: Road, waveform: NDArray[np.float32], answer: Answer) -> str:
    """Return the text of an utterance by its components alone.

    Args:
        road: whose components.
        waveform: float32 `[samples]`, 16 kHz.
        answer: what calls a component.
    """
    segments = [waveform]
    if road.has_vad:
        segmenter = Segmenter(segment_rules(RecognitionOptions()))
        spans = segmenter.push(answer("vad", {"waveform": waveform})["speech_probs"])
        spans += segmenter.flush(len(waveform))
        segments = [waveform[span.start : span.end] for span in spans]
    texts = []
    for segment in segments:
        encoded = answer(road.encoder, {"waveform": segment})
        decoded = answer(road.decoder, {name: encoded[name] for name in road.passed_on})
        texts.append(decoded["hypotheses"][0].decode())
    return " ".join(text for text in texts if text)


if __name__ == "__main__":
    main()
