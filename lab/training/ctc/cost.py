"""Print what the exported model costs: CPU time, and memory of a stream.

    OPENBLAS_NUM_THREADS=1 python -m lab.training.ctc.cost --manifest speech/manifest.tsv

The variable is what `conch serve` sets for its models: OpenBLAS's idle threads would spin, and be
counted, after each chunk's features.

Every row has the same utterances. Streams are fed chunk by chunk, all of them in one batch.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from conch.component import FloatArray, Row
from conch.families.ctc.encoder import (
    CtcEncoder,
    CtcEncoderConfig,
    CtcStreamingEncoder,
    CtcStreamingEncoderConfig,
)
from conch.scoring.error_rates import number, table
from lab.arguments import script_parser
from lab.training.ctc.data import some_utterances
from lab.waveforms import waveform_of

FLAGS = """
--manifest FILE!    utterances
--split SPLIT=dev   of the manifest
--model FILE        an exported .onnx (default: the one that comes with Conch)
--threads N=1       of a call
--left-ms N=5120    seen before a chunk
--limit N=64        utterances, evenly taken
--runs N=3          of which the median counts
"""


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS, model="")
    add = parser.add_argument
    add("--chunk-ms", type=int, nargs="*", default=[160, 320, 640, 1280])
    add("--streams", type=int, nargs="*", default=[1, 4], help="in a batch; fewer first")
    args = parser.parse_args(arguments)
    utterances = some_utterances(args.manifest, args.split, args.limit)
    waveforms = [waveform_of(item.path) for item in utterances]
    print(
        f"{len(os.sched_getaffinity(0))} cores, {sum(map(len, waveforms)) / 16_000:.0f} s of audio"
    )
    rows = []

    def line(name: str, run: Callable[[], object], kilobytes: str = "") -> None:
        cpu_ms = measured(run, sum(map(len, waveforms)) / 16_000, args.runs)
        rows.append([name, number(cpu_ms), kilobytes])

    full = CtcEncoder(CtcEncoderConfig(model=args.model, intra_threads=args.threads))
    line("CTC, full context", partial(one_by_one, full, waveforms))
    for chunk_ms in args.chunk_ms:
        config = CtcStreamingEncoderConfig(
            model=args.model, chunk_ms=chunk_ms, left_ms=args.left_ms, intra_threads=args.threads
        )
        component = CtcStreamingEncoder(config)
        component([Row({"waveform": waveforms[0]}, stream_id=1, starts=True)])
        stream = component._streams.take(1, starts=False, ends=False)
        held = sum(item.nbytes for item in (stream._waveform, *stream.caches))
        kilobytes = f"{held / 1000:.0f}"
        for streams in args.streams:
            name = f"CTC, {chunk_ms} ms, {streams} stream{'s' * (streams > 1)}"
            run = partial(streamed, component, waveforms, chunk_ms, streams)
            line(name, run, kilobytes)
        component.close()
    print(f"\n{table(['encoder', 'CPU ms per audio second', 'KB per stream'], rows)}")


def measured(run: Callable[[], object], audio_s: float, runs: int) -> float:
    """Return the median of CPU milliseconds for a second of audio."""
    cpu_ms = []
    for _ in range(runs):
        before = time.process_time()
        run()
        cpu_ms.append(1000 * (time.process_time() - before) / audio_s)
    return median(cpu_ms)


def one_by_one(component: CtcEncoder, waveforms: Sequence[FloatArray]) -> None:
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
