"""The baseline: the same Moonshine run by `sherpa-onnx` in one process, without Triton.

It runs the files that Conch makes its own graphs of, and hears each recording whole, greedily and
without VAD; Moonshine adds words to more than 30 s. It has one thread, its default: with two, the
packages' files took twice the CPU.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from conch.catalogue.checks import check_files
from conch.component import SAMPLE_RATE, FloatArray
from conch.families.moonshine import FILES, PACKAGE, TOKENIZER
from conch.families.moonshine.weights import DECODER, ENCODER, MODELS, TOKENIZER_FILE, read_graph
from conch.packaged import packaged
from lab.baselines import one_process
from lab.baselines.one_process import BaselineRun, Job, Transcribe

FORMATS = {"sherpa-onnx-moonshine": "ort", "sherpa-onnx-moonshine-onnx": "onnx"}
"""Format of the graphs, by the name of the baseline. The packages' own is `ort`, where each step
makes the weights float32 again; of `onnx`, ONNX Runtime does so once, while it loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    model: str
    """Folder with the files; empty is the model of the installed packages."""
    format: str
    num_threads: int = 1


def options_of(served: Mapping[str, str], language: str, name: str) -> Options:
    return Options(model=served.get("model", ""), format=FORMATS[name])


def measure(job: Job[Options], on_answer: Callable[[], None]) -> BaselineRun:
    # The files are made here, so that the figures of the process are those of sherpa-onnx.
    with TemporaryDirectory() as folder:
        _write_files(job.options, Path(folder))
        job = replace(job, options=replace(job.options, model=folder))
        return one_process.measure(load, job, on_answer)


def _write_files(options: Options, folder: Path) -> None:
    import onnx
    import tokenizers

    model = tokens = Path(options.model).absolute()
    if options.model:
        check_files((FILES,), model)
    else:
        model, tokens = packaged(PACKAGE, MODELS, {}), packaged(TOKENIZER, "assets", {})
    for name in (ENCODER, DECODER):
        if options.format == "ort":
            (folder / name).symlink_to(model / name)
            continue
        graph = read_graph(model / name)
        for attribute in (item for node in graph.graph.node for item in node.attribute):
            if attribute.HasField("g"):
                attribute.g.name = "branch"  # ONNX wants a name.
        onnx.save(graph, str((folder / name).with_suffix(".onnx")))
    units = tokenizers.Tokenizer.from_file(str(tokens / TOKENIZER_FILE)).get_vocab()
    lines = [
        f"{base64.b64encode(_bytes(unit)).decode()} {index}\n" for unit, index in units.items()
    ]
    (folder / "tokens.txt").write_text("".join(lines))


def _bytes(unit: str) -> bytes:
    byte = re.fullmatch("<0x(..)>", unit)
    return bytes.fromhex(byte[1]) if byte else unit.encode()


def load(options: Options) -> Transcribe:
    import sherpa_onnx

    folder = Path(options.model)
    recognizer = sherpa_onnx.OfflineRecognizer.from_moonshine_v2(
        *(str((folder / name).with_suffix(f".{options.format}")) for name in (ENCODER, DECODER)),
        tokens=str(folder / "tokens.txt"),
        num_threads=options.num_threads,
    )

    def transcribe(waveform: FloatArray) -> str:
        stream = recognizer.create_stream()
        stream.accept_waveform(SAMPLE_RATE, waveform)
        recognizer.decode_stream(stream)
        return str(stream.result.text).strip()

    return transcribe
