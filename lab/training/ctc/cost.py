"""Print what the exported model costs: CPU time, speed and memory, next to Whisper's encoder.

    OPENBLAS_NUM_THREADS=1 python -m lab.training.ctc.cost --manifest speech/manifest.tsv

The variable is what `conch serve` sets for its models: OpenBLAS's idle threads would spin, and be
counted, after each chunk's features.

Every row has the same utterances. Streams are fed chunk by chunk, all of them in one batch.
Memory grows from row to row of a chunk length: onnxruntime keeps what its largest batch took.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from conch.bench.memory import tree_memory
from conch.component import Row
from conch.component.arrays import FloatArray
from conch.families.ctc.encoder import (
    CtcEncoder,
    CtcEncoderConfig,
    CtcStreamingEncoder,
    CtcStreamingEncoderConfig,
)
from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from lab.training.ctc.data import utterances_of
from lab.waveforms import waveform_of


def main(arguments: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--manifest", type=Path, required=True)
    add("--split", default="dev")
    add("--model", default="", help="an exported .onnx; the one that comes with Conch if left out")
    add("--chunk-ms", type=int, nargs="*", default=[160, 320, 640, 1280])
    add("--threads", type=int, default=1, help="of a call")
    add("--left-ms", type=int, default=5120, help="seen before a chunk")
    add("--streams", type=int, nargs="*", default=[1, 4], help="in a batch; fewer first")
    add("--limit", type=int, default=64, help="utterances, evenly taken")
    add("--runs", type=int, default=3, help="of which the median counts")
    args = parser.parse_args(arguments)
    utterances = utterances_of(args.manifest, [args.split])
    utterances = utterances[:: max(1, len(utterances) // args.limit)]
    waveforms = [waveform_of(item.path) for item in utterances]
    print(
        f"{len(os.sched_getaffinity(0))} cores, {sum(map(len, waveforms)) / 16_000:.0f} s of audio"
    )
    print("\n| encoder | CPU ms per audio second | RTFx | KB per stream | MB of the process |")
    print("| --- | --- | --- | --- | --- |")

    def line(name: str, run: Callable[[], object], kilobytes: str = "") -> None:
        cpu_ms, rtfx = measured(run, sum(map(len, waveforms)) / 16_000, args.runs)
        taken_mb = tree_memory([os.getpid()]).total_mb
        print(f"| {name} | {cpu_ms:.1f} | {rtfx:.0f} | {kilobytes} | {taken_mb:.0f} |", flush=True)

    whisper = WhisperEncoder(WhisperEncoderConfig(intra_threads=args.threads))
    line("Whisper tiny.en, windows of 15 to 30 s", partial(one_by_one, whisper, waveforms))
    full = CtcEncoder(CtcEncoderConfig(model=args.model, intra_threads=args.threads))
    line("CTC, full context", partial(one_by_one, full, waveforms))
    for chunk_ms in args.chunk_ms:
        config = CtcStreamingEncoderConfig(
            model=args.model, chunk_ms=chunk_ms, left_ms=args.left_ms, intra_threads=args.threads
        )
        component = CtcStreamingEncoder(config)
        component([Row({"waveform": waveforms[0]}, stream_id=1, starts=True)])
        kilobytes = f"{component.held_bytes(1) / 1000:.0f}"
        for streams in args.streams:
            name = f"CTC, {chunk_ms} ms, {streams} stream{'s' * (streams > 1)}"
            run = partial(streamed, component, waveforms, chunk_ms, streams)
            line(name, run, kilobytes)
        component.close()


def measured(run: Callable[[], object], audio_s: float, runs: int) -> tuple[float, float]:
    """Return the medians of CPU milliseconds for a second of audio, and of RTFx."""
    cpu_ms, rtfx = [], []
    for _ in range(runs):
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        cpu_ms.append(1000 * (time.process_time() - cpu) / audio_s)
        rtfx.append(audio_s / (time.perf_counter() - wall))
    return float(np.median(cpu_ms)), float(np.median(rtfx))


def one_by_one(component: WhisperEncoder | CtcEncoder, waveforms: Sequence[FloatArray]) -> None:
    """Encode each utterance in a separate call."""
    for waveform in waveforms:
        component([Row({"waveform": waveform})])


def streamed(
    component: CtcStreamingEncoder, waveforms: Sequence[FloatArray], chunk_ms: int, streams: int
) -> None:
    """Feed as many streams at once, a chunk of each in every call."""
    samples = 16 * chunk_ms
    waiting = list(enumerate(waveforms))
    under_way: dict[int, tuple[FloatArray, int]] = {}
    while waiting or under_way:
        while waiting and len(under_way) < streams:
            index, waveform = waiting.pop()
            under_way[index] = waveform, 0
        rows = []
        for index, (waveform, start) in list(under_way.items()):
            end = start + samples
            piece = {"waveform": waveform[start:end]}
            rows.append(Row(piece, {}, f"s{index}", start == 0, end >= len(waveform)))
            under_way[index] = waveform, end
            if end >= len(waveform):
                del under_way[index]
        component(rows)


if __name__ == "__main__":
    main()
