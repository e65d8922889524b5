"""Measure the time that orchestration adds to an utterance of five seconds.

The same utterances are answered one at a time, by each way in turn: by `speech` over HTTP; without
VAD by an ensemble over HTTP; and by the components' objects in the client's process, one after the
other (`direct`). Orchestration adds the median time that a client of `speech` waits beyond
`direct`. It comes from the client, the protocol, Triton, its batching delay (5 ms at the attention
decoder), BLS, the path, and every copy of a tensor between processes.

The difference to the executions of the components (`compute`, as Triton counts) is reported too.
It is steadier, because it is taken from the same request, but too small: an execution of a
Python backend begins before its tensors are copied into shared memory and ends after they are
copied out. So a part of the cost of a call counts as the component's. The components of `direct`
run in one process, in which their runtimes share threads and caches.

All of it runs in a separate process (`python -m lab.orchestration.added`, see `lab.child`), so
that the components' memory is given back and no library of theirs is shared with later servers.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.audio.segmentation import Segmenter, segment_rules
from conch.cli.signals import interrupt_on_sigterm
from conch.client import AsyncClient
from conch.component import Array, Row
from conch.component.waveform import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions
from lab import child
from lab.model_repository import repository_of
from lab.orchestration.component_queues import load_components
from lab.orchestration.plain_client import PlainClient
from lab.orchestration.systems import Clip
from lab.served import model_work
from lab.turns import rotated
from lab.waveforms import waveform_of

SECONDS = 5.0
REPEATS = 20
"""Rounds over the utterances."""

Answer = Callable[[str, Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPath:
    """A path, and the same path as an ensemble if it has no conditions."""

    name: str
    encoder: str
    decoder: str
    decoder_inputs: tuple[str, str]
    """Outputs of the encoder that the decoder takes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ensemble: str | None = None

    @property
    def has_vad(self) -> bool:
        return bool(self.options.get("vad", True))

    @property
    def components(self) -> tuple[str, ...]:
        return (*(("vad",) if self.has_vad else ()), self.encoder, self.decoder)


_ATTENTION = CallPath(
    name="attention",
    encoder="attention_encoder",
    decoder="attention_decoder",
    decoder_inputs=("encoder_out", "encoder_out_lens"),
)
PATHS = (
    _ATTENTION,
    replace(
        _ATTENTION,
        name="attention, no VAD",
        options={"vad": False},
        ensemble="attention_ensemble",
    ),
    CallPath(
        name="ctc, no VAD",
        encoder="ctc_encoder",
        decoder="ctc_decoder",
        decoder_inputs=("log_probs", "log_probs_lens"),
        # The component's own default, which is all that an ensemble can have.
        options={"vad": False, "decoder": "ctc", "beam_size": 10},
        ensemble="ctc_ensemble",
    ),
)


def of_five_seconds(clips: Sequence[Clip], count: int = 5) -> list[NDArray[np.float32]]:
    """Return the clips nearest to five seconds, cut or padded with silence to exactly that."""
    length = round(SECONDS * SAMPLE_RATE)
    nearest = sorted(clips, key=lambda clip: abs(len(clip.waveform) - length))[:count]
    return [
        np.pad(clip.waveform[:length], (0, max(0, length - len(clip.waveform)))) for clip in nearest
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTime:
    """Medians of one path, in milliseconds; differences are taken pair by pair."""

    path: str
    speech_ms: float
    compute_ms: float
    """Time of the components' executions, as Triton counts it."""
    direct_ms: float
    ensemble_ms: float | None
    """None for a path with conditions, which an ensemble cannot have."""
    added_to_compute_ms: float
    added_to_direct_ms: float
    added_to_ensemble_ms: float | None
    waiting_ms: float
    """Added time in the components' queues."""


def measure(clips: Sequence[Clip], repeats: int = REPEATS) -> list[AddedTime]:
    """Start a server for each path, measure, and return each path's figures; see `figures`.

    Raises:
        BenchError: the process ended early; its message is on standard error.
    """
    job = {"paths": [str(clip.path) for clip in clips], "repeats": repeats}
    with child.running("lab.orchestration.added", job) as (process, messages, _):
        found = [AddedTime(**message) for message in messages]
    if len(found) != len(PATHS):
        raise BenchError(f"the time added: its process ended early, status {process.returncode}")
    return found


def main() -> None:
    """Run the job; called in the child."""
    job = child.job()
    interrupt_on_sigterm()
    clips = [Clip(file, waveform_of(file)) for file in map(Path, job["paths"])]
    waveforms = of_five_seconds(clips)
    for path in PATHS:
        seconds, waiting_s = asyncio.run(_measured(path, waveforms, job["repeats"]))
        child.say(**asdict(figures(path.name, seconds, waiting_s)))


def figures(
    path: str, seconds: Mapping[str, Sequence[float]], waiting_s: Sequence[float]
) -> AddedTime:
    """Return p50 of each way, and of the differences to `speech`, pair by pair.

    Args:
        path: its name.
        seconds: latencies of `speech`, its components' executions (`compute`), `direct` and
            possibly `ensemble`, the same requests each.
        waiting_s: of `speech`, in the components' queues.
    """

    def median_ms(values: Sequence[float]) -> float:
        return round(1000 * statistics.median(values), 2)

    def added_ms(way: str) -> float:
        pairs = zip(seconds["speech"], seconds[way], strict=True)
        return median_ms([speech - other for speech, other in pairs])

    has_ensemble = "ensemble" in seconds
    return AddedTime(
        path=path,
        speech_ms=median_ms(seconds["speech"]),
        compute_ms=median_ms(seconds["compute"]),
        direct_ms=median_ms(seconds["direct"]),
        ensemble_ms=median_ms(seconds["ensemble"]) if has_ensemble else None,
        added_to_compute_ms=added_ms("compute"),
        added_to_direct_ms=added_ms("direct"),
        added_to_ensemble_ms=added_ms("ensemble") if has_ensemble else None,
        waiting_ms=median_ms(waiting_s),
    )


async def _measured(
    path: CallPath, waveforms: Sequence[NDArray[np.float32]], repeats: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the latencies of each way, and how long `speech` waited in components' queues."""
    models = ["speech", *path.components, *([path.ensemble] if path.ensemble else [])]
    queues = load_components(path.components, batched=False)
    seconds: dict[str, list[float]] = {"speech": [], "compute": [], "direct": []}
    waiting_s: list[float] = []
    with (
        repository_of(models) as repository,
        TritonServer(
            ServerConfig(
                model_repositories=(repository,),
                # The systems to compare with call the components too.
                open_components=True,
                log_level="warning",
            )
        ) as server,
    ):
        async with AsyncClient(server.http_url) as speech, PlainClient(server.http_url, 1) as plain:

            def answer(model: str, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
                return queues[model].submit(Row(inputs)).result()

            async def ask_direct(waveform: NDArray[np.float32]) -> None:
                direct(path, waveform, answer)

            async def ask_speech(waveform: NDArray[np.float32]) -> None:
                await speech.transcribe(waveform, **path.options)

            async def ask_ensemble(waveform: NDArray[np.float32]) -> None:
                assert path.ensemble is not None
                sent = ("waveform", waveform[np.newaxis])
                await plain.infer(path.ensemble, sent, "hypotheses")

            def work_s() -> tuple[float, float]:
                work = model_work(server.http_url, path.components).values()
                return sum(item.compute_s for item in work), sum(item.queue_s for item in work)

            ways = {"direct": ask_direct, "speech": ask_speech}
            if path.ensemble:
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


def direct(path: CallPath, waveform: NDArray[np.float32], answer: Answer) -> str:
    """Return the text of an utterance by its components alone.

    Args:
        path: whose components.
        waveform: float32 `[samples]`, 16 kHz.
        answer: function that calls a component.
    """
    segments = [waveform]
    if path.has_vad:
        segmenter = Segmenter(segment_rules(RecognitionOptions()))
        spans = segmenter.push(answer("vad", {"waveform": waveform})["speech_probs"])
        spans += segmenter.flush(len(waveform))
        segments = [waveform[span.start : span.end] for span in spans]
    texts = []
    for segment in segments:
        encoded = answer(path.encoder, {"waveform": segment})
        decoded = answer(path.decoder, {name: encoded[name] for name in path.decoder_inputs})
        texts.append(decoded["hypotheses"][0].decode())
    return " ".join(text for text in texts if text)


if __name__ == "__main__":
    main()
