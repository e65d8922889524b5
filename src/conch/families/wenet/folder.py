"""Folders of WeNet's U2 and U2++ models, as its scripts export them, checked without loading."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from conch.catalogue.checks import ModelSummary, UnfitModelError, read_yaml, readable, size_of
from conch.catalogue.exports import (
    KALDI_BY_DEFAULT,
    TOKENS,
    AcousticEncoder,
    OnnxNetwork,
    check_distinct,
    chosen_file,
    files_in,
    header_of,
    read_tokens,
    state_of,
    whole_number,
    with_caches,
)
from conch.catalogue.onnx_header import GraphHeader
from conch.families.wenet import LIVE

UNITS = ("units.txt", "lang_char.txt", "words.txt", TOKENS)
CONFIG, TRAINING = "config.yaml", "train.yaml"
REVERSED = "r_hyps_pad_sos_eos"
ENCODERS = ("conformer", "transformer", "branchformer", "e_branchformer")
_SUBSAMPLING = {"conv2d": 4, "conv2d6": 6, "conv2d8": 8}
"""Feature frames of a frame of output, by `input_layer`."""
_FRONT_END = {
    "resample_rate": 16_000,
    "feats_type": "fbank",
    "frame_length": 25,
    "frame_shift": 10,
    "window_type": "povey",
}
"""Settings of the features that are always the same."""
_TAKES = {
    "best_index": {"encoder_out", "encoder_out_lens", "hyps_pad_sos_eos", "hyps_lens_sos"}
    | {REVERSED, "ctc_score"},
    "score": {"encoder_out", "hyps", "hyps_lens"},
}
"""Inputs of the decoder by its output: that of an export for GPUs, and for CPUs."""
_NUM_HYPOTHESES, _CTC_WEIGHT = 10, 0.5
"""Values of WeNet's runtime for CPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WenetFolder:
    folder: Path
    encoder: AcousticEncoder
    ctc: Path | None
    """The network that writes units, of an export for CPUs; None where the encoder does."""
    decoder: Path
    decoder_header: GraphHeader
    tokens: tuple[str, ...]
    """Symbol of each unit; the first is the blank."""
    edges: tuple[int, int]
    """The units in front of a text and behind it."""
    num_hypotheses: int
    """Hypotheses that the decoder scores in one run."""
    ctc_weight: float | None = None
    """Weight of the score by CTC; None where the network of the decoder has it."""
    reverse_weight: float = 0.0
    """Share of the decoder that reads from the end, if its network has it not."""
    hears_live: bool
    """Whether the encoder hears live audio, and not a recording as one chunk."""

    @property
    def is_bidirectional(self) -> bool:
        """Whether a decoder reads from the end too."""
        names = {item.name for item in self.decoder_header.inputs}
        return REVERSED in names or self.reverse_weight > 0


def check_wenet(folder: Path) -> ModelSummary:
    model = read_wenet(folder)
    version = "U2++" if model.is_bidirectional else "U2"
    return ModelSummary(
        None,
        size_of(folder),
        family=f"WeNet {version}, exported for {'CPUs' if model.ctc else 'GPUs'}",
        features=model.encoder.takes,
        units=len(model.tokens),
        is_live=model.hears_live,
    )


def networks_of_wenet(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_wenet(folder)
    (first, last), encoder = model.edges, model.encoder
    hears = f"{encoder.takes}: {encoder.settings}"
    if encoder.is_live and not model.hears_live:
        hears += "; the recording as one chunk, an offset of 0, and caches of no frames or of zeros"
    parts = {"encoder": (encoder.path, encoder.header, hears)}
    if model.ctc:
        parts["ctc"] = (model.ctc, header_of(model.ctc), "what the encoder hears")
        texts = f"unit {first}, the text, padding of {last}"
    else:
        texts = f"unit {first}, the text, unit {last} and that as padding; {model.num_hypotheses} "
        texts += "of a recording, and r_hyps with the text turned round"
    takes = f"what the encoder hears, and hypotheses: {texts}"
    parts["decoder"] = (model.decoder, model.decoder_header, takes)
    keepers = {"encoder": LIVE[0]} if model.hears_live else {}
    return tuple(
        OnnxNetwork(part=part, path=path, header=header, takes=takes, keeper=keepers.get(part, ""))
        for part, (path, header, takes) in parts.items()
    )


@readable()
def read_wenet(folder: Path, precision: str = "float32") -> WenetFolder:
    """Return what a folder holds, without its weights.

    It has `encoder.onnx`, `decoder.onnx` and the units; of the export for GPUs `config.yaml` too,
    of that for CPUs `ctc.onnx`. `train.yaml` may be there. Of several files, `precision` chooses
    those in float32, or in int8.
    """
    parts = {part: chosen_file(folder, part, precision) for part in ("encoder", "decoder")}
    path, decoder = parts["encoder"], parts["decoder"]
    units = next((files[0] for name in UNITS if (files := files_in(folder, name))), None)
    if path is None or decoder is None or units is None:
        lacking = [f"{part}.onnx" for part, file in parts.items() if file is None]
        lacking += [" or ".join(UNITS[:3])] * (units is None)
        raise UnfitModelError(
            f"it lacks {', '.join(lacking)}; a model of WeNet has encoder.onnx, decoder.onnx, "
            f"{UNITS[0]}, and {CONFIG} or ctc.onnx",
            0 if files_in(folder, "*joiner*.onnx") else 1 - len(lacking) / 3,
        )
    header, training = header_of(path), _training(folder)
    x, *others = header.inputs
    if x.name == "chunk":
        return _for_cpu(folder, path, header, decoder, units, precision)
    if x.name not in ("speech", "chunk_xs") or not others:
        raise UnfitModelError(
            f"its {path.name} takes {x.name}; that of WeNet takes speech, chunk_xs or chunk", 0
        )
    return _for_gpu(folder, path, header, decoder, units, training)


def _for_gpu(
    folder: Path,
    path: Path,
    header: GraphHeader,
    decoder: Path,
    units: Path,
    training: Mapping[str, Any],
) -> WenetFolder:
    files = files_in(folder, CONFIG)
    if not files:
        raise UnfitModelError(f"it lacks {CONFIG}, which WeNet writes beside {path.name}")
    config, x = read_yaml(files[0]), header.inputs[0]

    def number(key: str, least: int = 1) -> int:
        value = config.get(key)
        if not isinstance(value, int) or value < least:
            raise UnfitModelError(f"its {CONFIG} has no number {key}, as an export has it")
        return value

    is_live = x.name == "chunk_xs"
    layer = str(_part(training, "encoder_conf").get("input_layer", "conv2d"))
    if not is_live and layer not in _SUBSAMPLING:
        raise UnfitModelError(
            f"its {TRAINING} has input_layer {layer!r:.40}; {', '.join(_SUBSAMPLING)} are served"
        )
    encoder = AcousticEncoder(
        path=path,
        header=header,
        features=KALDI_BY_DEFAULT,
        num_mels=_last(x.dims, 80),
        takes_batches=True,
        subsampling=number("subsampling_rate", 2) if is_live else _SUBSAMPLING[layer],
        takes_rest=True,
    )
    if is_live:
        num_frames = number("decoding_chunk_size")
        states = (state_of(item, x.dims[0], path.name) for item in header.inputs[2:])
        encoder = replace(
            encoder,
            states=tuple(states),
            chunk=(num_frames - 1) * encoder.subsampling + number("context"),
            shift=num_frames * encoder.subsampling,
        )
        if encoder.chunk not in x.dims:
            raise UnfitModelError(
                f"its {path.name} takes {x.dims[1]} frames and its {CONFIG} says {encoder.chunk}: "
                "they are of different models"
            )
    widths = {item.name: _last(item.dims, 0) for item in header.outputs}
    lacking = {"chunk_out"} if is_live else {"encoder_out", "encoder_out_lens", "ctc_log_probs"}
    if "ctc_log_probs" not in widths:
        lacking |= {"log_probs", "log_probs_idx"}
    _check_gives(header, path, lacking)
    size = widths.get("ctc_log_probs") or training.get("output_dim")
    tokens = _tokens(units, size if isinstance(size, int) else None, path.name)
    edge = tokens.index("<sos/eos>") if "<sos/eos>" in tokens else len(tokens) - 1
    return WenetFolder(
        folder=folder,
        encoder=encoder,
        ctc=None,
        decoder=decoder,
        decoder_header=_decoder(decoder, "best_index"),
        tokens=tokens,
        edges=(edge, edge),
        num_hypotheses=number("beam_size"),
        hears_live=is_live,
    )


def _for_cpu(
    folder: Path, path: Path, header: GraphHeader, decoder: Path, units: Path, precision: str
) -> WenetFolder:
    ctc = chosen_file(folder, "ctc", precision)
    if ctc is None:
        raise UnfitModelError(f"it lacks ctc.onnx, which WeNet writes beside {path.name}")
    header_of(ctc)
    _check_gives(header, path, {"output"})
    number = partial(whole_number, header, path)

    encoder = AcousticEncoder(
        path=path,
        header=header,
        features=KALDI_BY_DEFAULT,
        num_mels=number("feature_size"),
        takes_batches=False,
        subsampling=number("subsampling_rate", 2),
        takes_rest=True,
    )
    try:
        share = float(header.metadata.get("reverse_weight", ""))
    except ValueError:
        raise UnfitModelError(f"the metadata of its {path.name} have no reverse_weight") from None
    return WenetFolder(
        folder=folder,
        encoder=with_caches(encoder, "att_cache", "cnn_cache"),
        ctc=ctc,
        decoder=decoder,
        decoder_header=_decoder(decoder, "score"),
        tokens=_tokens(units, number("vocab_size"), path.name),
        edges=(number("sos_symbol", 0), number("eos_symbol", 0)),
        num_hypotheses=_NUM_HYPOTHESES,
        ctc_weight=_CTC_WEIGHT,
        reverse_weight=share if number("is_bidirectional_decoder", 0) else 0.0,
        hears_live=header.metadata.get("chunk_size") != "-1",
    )


def _check_gives(header: GraphHeader, path: Path, wanted: set[str]) -> None:
    if lacking := wanted - {item.name for item in header.outputs}:
        raise UnfitModelError(f"its {path.name} gives no {' and no '.join(sorted(lacking))}")


def _decoder(path: Path, wanted: str) -> GraphHeader:
    header, takes = header_of(path), _TAKES[wanted]
    names, gives = ({item.name for item in items} for items in (header.inputs, header.outputs))
    if wanted not in gives or names | {REVERSED} != takes | {REVERSED}:
        raise UnfitModelError(
            f"its {path.name} takes {', '.join(sorted(names)):.200}; that of such an encoder takes "
            f"{', '.join(sorted(takes))} and gives {wanted}"
        )
    return header


def _tokens(path: Path, size: int | None, part: str) -> tuple[str, ...]:
    """Return the symbols of `size` units; None for any number."""
    if size is None:
        size = sum(bool(line.strip()) for line in path.read_bytes().split(b"\n"))
    tokens = read_tokens(path, size, part)
    check_distinct(tokens, path.name)
    return tokens


def _training(folder: Path) -> Mapping[str, Any]:
    """Return `train.yaml` of a model that hears what Conch feeds; nothing without it."""
    files = files_in(folder, TRAINING)
    training = read_yaml(files[0]) if files else {}
    data = _part(training, "dataset_conf")
    settings = {**data, **_part(data, "resample_conf"), **_part(data, "fbank_conf")}
    for key, wanted in _FRONT_END.items():
        if settings.get(key, wanted) != wanted:
            raise UnfitModelError(f"its {TRAINING} has {key} {settings[key]!r:.40}, not {wanted}")
    encoder = training.get("encoder", ENCODERS[0])
    if encoder not in ENCODERS:
        raise UnfitModelError(
            f"its {TRAINING} has encoder {encoder!r:.40}; those served are {', '.join(ENCODERS)}"
        )
    return training


def _part(known: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = known.get(key)
    return section if isinstance(section, dict) else {}


def _last(dims: tuple[int | str, ...], otherwise: int) -> int:
    return dims[-1] if dims and isinstance(dims[-1], int) else otherwise
