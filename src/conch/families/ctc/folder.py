"""Folders of CTC models as others export them, checked without loading them."""

import re
from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import ModelSummary, UnfitModelError, read_json, readable, size_of
from conch.catalogue.exports import (
    BLANKS,
    KALDI_BY_DEFAULT,
    KALDI_OF_16_BITS,
    TOKENS,
    AcousticEncoder,
    Features,
    OnnxNetwork,
    check_distinct,
    files_in,
    header_of,
    of_precision,
    read_encoder,
    read_nemo_encoder,
    read_symbols,
    whole_number,
    with_caches,
)
from conch.catalogue.onnx_header import GraphHeader
from conch.families.ctc import LIVE

ICEFALL = ("zipformer2_ctc", "zipformer2")
NEMO = ("EncDecCTCModelBPE", "EncDecCTCModel", "EncDecHybridRNNTCTCBPEModel")
WENET = "wenet_ctc"
OMNILINGUAL, TELESPEECH, DOLPHIN = "omnilingual-asr", "telespeech_ctc", "dolphin"
ONE_GRAPH = {
    "medasr_ctc": Features(
        maker="MedASR",
        is_16_bit=False,
        window="hanning",
        snip_edges=True,
        low=125.0,
        high=7500.0,
        removes_mean=False,
        is_narrow=True,
    ),
    DOLPHIN: Features(
        maker="Dolphin",
        is_16_bit=False,
        window="hann",
        window_ms=31.25,
        low=0.0,
        high=8000.0,
        is_librosa=True,
        removes_mean=False,
    ),
    TELESPEECH: Features(snip_edges=True, low=40.0, high=7800.0, is_mfcc=True),
    "fire-red-asr-2-ctc": KALDI_BY_DEFAULT,
}
"""Features of sherpa-onnx's models for recordings alone, by `model_type`."""
_MEANS = {"mean": "invstd", "cmvn_mean": "cmvn_inv_stddev"}
"""Names of metadata: the mean of each feature, and the factor after its subtraction."""
VOCABULARY = "vocab.json"
_PREPROCESSOR = "preprocessor_config.json"
_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json")
_PADDING = ("<pad>", "<PAD>")
"""The blank of wav2vec2, where its `pad_token` is not known."""
_BRACKETED = re.compile(r"\[([A-Z]+)\]")
"""A symbol that is no text, as `[PAD]`."""
_OTHERS = ("fp16", "q4", "bnb4", "uint8")
"""Marks in the names of files with other weights, which are left out."""
_WAVEFORM_FRAME = 320
"""Samples of a frame of wav2vec2 and its like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcFolder:
    folder: Path
    model_type: str
    """Name in the metadata, or what the model takes."""
    recordings: AcousticEncoder
    live: AcousticEncoder | None
    tokens: tuple[str, ...]
    """Symbol of each unit, by the model's numbers."""
    blank: int

    @property
    def frame_ms(self) -> int:
        subsampling = self.recordings.subsampling
        return subsampling * 10 if self.recordings.features else subsampling // 16


def check_ctc(folder: Path) -> ModelSummary:
    model = read_ctc(folder)
    return ModelSummary(
        None,
        size_of(folder),
        family=f"CTC ({model.model_type})" if model.model_type else "CTC",
        features=model.recordings.takes,
        units=len(model.tokens),
        is_live=model.live is not None,
    )


def networks_of_ctc(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_ctc(folder)
    return tuple(
        OnnxNetwork(
            part="streaming" if encoder.is_live else "model",
            path=encoder.path,
            header=encoder.header,
            takes=f"{encoder.takes}: {encoder.settings}",
            keeper=LIVE[0] if encoder.is_live else "",
        )
        for encoder in {item.path: item for item in (model.recordings, model.live) if item}.values()
    )


@readable()
def read_ctc(folder: Path, precision: str = "float32") -> CtcFolder:
    """Return what a folder holds, without its weights.

    It has one `.onnx` file for recordings, for live audio, or one for each, and `tokens.txt` or
    wav2vec2's `vocab.json`. Of several files, `precision` chooses those in float32, or in int8.
    """
    files = files_in(folder, "*.onnx")
    tokens = [*files_in(folder, TOKENS), *files_in(folder, VOCABULARY)]
    if not files or not tokens:
        lacking = ["*.onnx"] * (not files) + [f"{TOKENS} or {VOCABULARY}"] * (not tokens)
        raise UnfitModelError(
            f"it lacks {' and '.join(lacking)}; a CTC model has one .onnx file for recordings, "
            "for live audio or for each, and its units",
            1 - len(lacking) / 2,
        )
    parts = [path.name for path in files if {"decoder", "joiner"} & {*path.stem.split("-")}]
    if parts:
        raise UnfitModelError(f"it has {parts[0]}, and a CTC model is one network", 0)
    full = [path for path in files if not any(name in path.name for name in _OTHERS)] or files
    headers = {path: header_of(path) for path in full}
    live = [path for path, header in headers.items() if len(header.outputs) > 2]
    whole = [path for path in full if path not in live]
    chosen = [
        of_precision(whole, "model of recordings", precision),
        of_precision(live, "model of live audio", precision),
    ]
    return _folder(folder, [path for path in chosen if path], headers, tokens[0])


def _folder(
    folder: Path, paths: list[Path], headers: dict[Path, GraphHeader], tokens: Path
) -> CtcFolder:
    encoders = [_encoder(path, headers[path]) for path in paths]
    first = encoders[0]
    width = first.header.outputs[0].dims[-1:]
    for other in encoders[1:]:
        if other.header.outputs[0].dims[-1:] != width:
            raise UnfitModelError(
                f"its {first.path.name} and its {other.path.name} write other units: they are of "
                "different models"
            )
        if other.subsampling != first.subsampling:
            raise UnfitModelError(
                f"its {first.path.name} has a frame for {first.subsampling} of what it hears and "
                f"its {other.path.name} for {other.subsampling}: they are of different models"
            )
    model_type = _model_type(first.header)
    is_nemo = model_type in NEMO
    if width and isinstance(width[0], int):
        size = width[0]
    elif model_type in (WENET, *ONE_GRAPH) or is_nemo:
        size = whole_number(first.header, first.path, "vocab_size") + is_nemo
    else:
        raise UnfitModelError(f"its {first.path.name} does not say how many units it writes")
    symbols = _symbols(tokens, size, first.path.name)
    known: tuple[str, ...] = (*BLANKS, *_PADDING)
    if not first.features:
        symbols = tuple(_BRACKETED.sub(r"<\1>", text) for text in symbols)
        known = tuple({*_pad_tokens(tokens.parent)} & {*symbols}) or known
    blanks = [unit for unit, text in enumerate(symbols) if text in known]
    if model_type == OMNILINGUAL:
        blanks = [0]
    if not blanks:
        names = f"{', '.join(BLANKS)}, <pad> or [PAD]"
        raise UnfitModelError(f"its {tokens.name} has no blank, {names}")
    check_distinct(symbols, tokens.name)
    return CtcFolder(
        folder=folder,
        model_type=model_type or ("" if first.features else "waveform"),
        recordings=first,
        live=encoders[-1] if encoders[-1].is_live else None,
        tokens=symbols,
        blank=blanks[0],
    )


def _symbols(path: Path, size: int, part: str) -> tuple[str, ...]:
    if path.name == TOKENS:
        return read_symbols(path, size, part)
    what = "list of symbols with numbers"
    entries = read_json(path, dict, what)
    for text, unit in entries.items():
        if not isinstance(unit, int):
            raise UnfitModelError(f"its {path.name} is no {what}: {text!r:.40} has {unit!r:.40}")
    numbers = {unit: text for text, unit in entries.items()}
    if sorted(numbers) != [*range(size)]:
        raise UnfitModelError(
            f"its {path.name} has {len(numbers)} units and its {part} writes {size}: they are of "
            "different models"
        )
    # wav2vec2's space.
    return tuple(" " if numbers[unit] == "|" else numbers[unit] for unit in range(size))


def _pad_tokens(folder: Path) -> list[str]:
    """Return the padding tokens of a tokenizer's files, in the form of symbols here."""
    tokens = []
    for name in _TOKENIZERS:
        for path in files_in(folder, name):
            token = read_json(path, dict, "JSON object").get("pad_token")
            token = token.get("content") if isinstance(token, dict) else token
            tokens.append(_BRACKETED.sub(r"<\1>", str(token)))
    return tokens


def _model_type(header: GraphHeader) -> str:
    metadata = header.metadata
    return metadata.get("model_type", "") or DOLPHIN * ("invstd" in metadata)


def _encoder(path: Path, header: GraphHeader) -> AcousticEncoder:
    model_type, x = _model_type(header), header.inputs[0]
    if len(x.dims) == 2 and len(header.inputs) == 1:
        return AcousticEncoder(
            path=path,
            header=header,
            features=None,
            num_mels=1,
            is_normalised=_normalises(path.parent),
            takes_batches=False,
            subsampling=_WAVEFORM_FRAME,
        )
    if model_type in ICEFALL:
        return read_encoder(path, header)
    if model_type == WENET:
        return _wenet(path, header)
    if model_type in NEMO:
        return read_nemo_encoder(path, header)
    if model_type in ONE_GRAPH:
        return _one_graph(path, header, model_type)
    known = ", ".join((*ICEFALL, WENET, *NEMO, *ONE_GRAPH, OMNILINGUAL))
    raise UnfitModelError(
        f"its {path.name} has model_type {model_type!r:.60}; those served are {known}"
    )


def _one_graph(path: Path, header: GraphHeader, model_type: str) -> AcousticEncoder:
    x, is_telespeech = header.inputs[0], model_type == TELESPEECH
    num_mels = x.dims[-1] if isinstance(x.dims[-1], int) else 80
    mean = next((key for key in _MEANS if key in header.metadata), "")
    return AcousticEncoder(
        path=path,
        header=header,
        features=ONE_GRAPH[model_type],
        num_mels=num_mels,
        is_normalised=is_telespeech,
        means=_numbers(path, header, mean, num_mels) if mean else (),
        scales=_numbers(path, header, _MEANS[mean], num_mels) if mean else (),
        takes_batches=isinstance(x.dims[0], str),
        frames_first=is_telespeech,
    )


def _numbers(path: Path, header: GraphHeader, key: str, count: int) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, header.metadata.get(key, "").split(",")))
    except ValueError:
        numbers = ()
    if len(numbers) != count:
        raise UnfitModelError(
            f"the metadata of its {path.name} have no {count} numbers {key!r}, as an export has it"
        )
    return numbers


def _normalises(folder: Path) -> bool:
    """Return whether a waveform is normalised: not where its `preprocessor_config.json` says so."""
    paths = [path for path in (folder, folder.parent) if (path / _PREPROCESSOR).is_file()]
    settings = read_json(paths[0] / _PREPROCESSOR, dict, "JSON object") if paths else {}
    return settings.get("do_normalize") is not False


def _wenet(path: Path, header: GraphHeader) -> AcousticEncoder:
    subsampling = whole_number(header, path, "subsampling_factor")
    encoder = AcousticEncoder(
        path=path,
        header=header,
        features=KALDI_OF_16_BITS,
        takes_batches=False,
        subsampling=subsampling,
    )
    return with_caches(encoder, "attn_cache", "conv_cache") if len(header.outputs) > 2 else encoder
