"""Print word error rates of a folder by sherpa-onnx itself, as if streamed.

    pip install sherpa-onnx
    python -m lab.training.transducer.evaluate transducer-en --manifest speech/manifest.tsv

With --texts the texts are written to a file, one a line after the recording's path.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sherpa_onnx

from conch.component.arrays import FloatArray
from conch.component.waveform import SAMPLE_RATE
from lab.baselines.folder_peers import recognizer_of
from lab.training.ctc.data import some_utterances
from lab.training.ctc.evaluate import Table
from lab.waveforms import waveform_of

_STREAMS = 8
"""Side by side in one step."""
_TAIL_S = 1.0
"""Silence that flushes the last chunk."""


def main(arguments: list[str] | None = None) -> None:
    """Evaluate as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("folder", type=Path)
    add("--manifest", type=Path, required=True)
    add("--split", default="dev")
    add("--beam", type=int, nargs="*", default=[0, 4], help="active paths; 0 is greedy")
    add("--limit", type=int, help="utterances, evenly taken; all if left out")
    add("--texts", type=Path, help="file for the texts of the last beam")
    args = parser.parse_args(arguments)
    utterances = some_utterances(args.manifest, args.split, args.limit)
    waveforms = [waveform_of(item.path) for item in utterances]
    audio_s = sum(map(len, waveforms)) / SAMPLE_RATE
    table = Table([item.source for item in utterances], [item.text for item in utterances])
    print(table.head)
    for beam in args.beam:
        recognizer = recognizer_of("transducer", args.folder, max(1, beam))
        started = time.monotonic()
        texts = []
        for first in range(0, len(waveforms), _STREAMS):
            texts += texts_of(recognizer, waveforms[first : first + _STREAMS])
        rtfx = audio_s / (time.monotonic() - started)
        print(table.row(f"beam {beam}" if beam else "greedy", texts), flush=True)
        print(f"RTFx {rtfx:.1f}", file=sys.stderr)
        if args.texts:
            pairs = zip(utterances, texts, strict=True)
            args.texts.write_text("".join(f"{item.path}\t{text}\n" for item, text in pairs))


def texts_of(
    recognizer: sherpa_onnx.OnlineRecognizer, waveforms: Sequence[FloatArray]
) -> list[str]:
    """Return the texts of waveforms, float32 `[samples]`, 16 kHz, that are streamed together."""
    streams = [recognizer.create_stream() for _ in waveforms]
    for stream, waveform in zip(streams, waveforms, strict=True):
        stream.accept_waveform(SAMPLE_RATE, with_silence(waveform))
        stream.input_finished()
    while ready := [stream for stream in streams if recognizer.is_ready(stream)]:
        recognizer.decode_streams(ready)
    return [recognizer.get_result(stream).strip() for stream in streams]


def with_silence(waveform: FloatArray) -> FloatArray:
    """Return a waveform and the silence that flushes its last chunk."""
    return np.pad(waveform, (0, int(_TAIL_S * SAMPLE_RATE)))


if __name__ == "__main__":
    main()
