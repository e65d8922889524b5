"""Folders of transducers of icefall and NeMo, exported for sherpa-onnx, checked without loading."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from conch.catalogue.checks import ModelSummary, UnfitModelError, readable, size_of
from conch.catalogue.exports import (
    NEMO_TRANSDUCER,
    TOKENS,
    AcousticEncoder,
    OnnxNetwork,
    chosen_file,
    files_in,
    header_of,
    in_windows,
    read_encoder,
    read_nemo_encoder,
    read_tokens,
    whole_number,
)
from conch.catalogue.onnx_header import GraphHeader
from conch.families.transducer import LIVE

TYPES = ("zipformer2", "zipformer", "conformer", "lstm", "ebranchformer")
"""Values of `model_type` in an encoder's metadata. Only their names are known here: what an encoder
keeps from chunk to chunk is read from its inputs."""
NEMO_TYPES = ("EncDecRNNTBPEModel", "EncDecRNNTModel", "EncDecHybridRNNTCTCBPEModel")
PARTS = ("encoder", "decoder", "joiner")


@dataclass(frozen=True, slots=True)
class Lstm:
    """Sizes of a decoder that keeps states, as NeMo's do."""

    layers: int
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transducer:
    folder: Path
    parts: Mapping[str, Path]
    """The files, by the names in `PARTS`."""
    headers: Mapping[str, GraphHeader]
    tokens: tuple[str, ...]
    encoder: AcousticEncoder
    live: AcousticEncoder | None
    context_size: int = 0
    """Units before the next one that the decoder reads; 0 if it reads all."""
    blank: int = 0
    lstm: Lstm | None = None
    """The decoder of a model of NeMo; None for one of icefall."""
    is_tdt: bool = False
    """Whether the joiner says after how many frames the next unit comes."""

    @property
    def frame_s(self) -> float:
        return self.encoder.subsampling / 100


def check_transducer(folder: Path) -> ModelSummary:
    model = read_transducer(folder)
    model_type = model.headers["encoder"].metadata.get("model_type", "")
    model_type = f"NeMo {'TDT' if model.is_tdt else 'RNN-T'}" if model.lstm else model_type
    return ModelSummary(
        None,
        size_of(folder),
        family=f"transducer ({model_type})" if model_type else "transducer",
        features=model.encoder.takes,
        units=len(model.tokens),
        is_live=model.live is not None,
    )


def networks_of_transducer(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_transducer(folder)
    units = f"the last {model.context_size} units; before the first, the blank {model.blank}"
    if model.lstm:
        units = (
            f"the last unit, the blank {model.blank} at first, and the states of the call before"
        )
    takes = {
        "encoder": f"{model.encoder.takes}: {model.encoder.settings}",
        "decoder": units,
        "joiner": "a frame of the encoder, and what the decoder makes of the units so far",
    }
    keepers = {"encoder": LIVE[0]} if model.encoder.is_live else {}
    return tuple(
        OnnxNetwork(
            part=part,
            path=path,
            header=model.headers[part],
            takes=takes[part],
            keeper=keepers.get(part, ""),
        )
        for part, path in model.parts.items()
    )


@readable()
def read_transducer(folder: Path, precision: str = "float32") -> Transducer:
    """Return what a folder holds, without its weights.

    It has `encoder*.onnx`, `decoder*.onnx`, `joiner*.onnx` and `tokens.txt`, or folders with them.
    Of several files, `precision` chooses those in float32, or in int8.
    """
    chosen = {part: chosen_file(folder, part, precision) for part in PARTS}
    tokens = files_in(folder, TOKENS)
    parts = {part: path for part, path in chosen.items() if path}
    lacking = [f"{part}*.onnx" for part in PARTS if part not in parts]
    lacking += [] if tokens else [TOKENS]
    if lacking:
        raise UnfitModelError(
            f"it lacks {', '.join(lacking)}; a transducer "
            f"has encoder*.onnx, decoder*.onnx, joiner*.onnx and {TOKENS}, as icefall and "
            "NeMo are exported for sherpa-onnx",
            1 - len(lacking) / (len(PARTS) + 1),
        )
    headers = {part: header_of(path) for part, path in parts.items()}
    is_nemo = "pred_hidden" in headers["encoder"].metadata
    return (_nemo if is_nemo else _transducer)(folder, parts, headers, tokens[0])


def _transducer(
    folder: Path, parts: Mapping[str, Path], headers: Mapping[str, GraphHeader], tokens: Path
) -> Transducer:
    encoder, decoder = headers["encoder"], headers["decoder"]
    name = parts["encoder"].name
    model_type = encoder.metadata.get("model_type", "")
    if model_type and model_type not in TYPES:
        raise UnfitModelError(
            f"its {name} has model_type {model_type!r:.60}; those served are "
            f"{', '.join((*TYPES, *NEMO_TYPES))}"
        )
    size = whole_number(decoder, parts["decoder"], "vocab_size")
    width = headers["joiner"].outputs[0].dims[-1:]
    if width and isinstance(width[0], int) and width[0] != size:
        raise UnfitModelError(
            f"its {parts['joiner'].name} writes {width[0]} units and its "
            f"{parts['decoder'].name} reads {size}: they are of different models"
        )
    acoustic = read_encoder(parts["encoder"], encoder)
    return Transducer(
        folder=folder,
        parts=parts,
        headers=headers,
        tokens=read_tokens(tokens, size),
        context_size=whole_number(decoder, parts["decoder"], "context_size"),
        encoder=acoustic,
        live=acoustic if acoustic.is_live else None,
    )


def _nemo(
    folder: Path, parts: Mapping[str, Path], headers: Mapping[str, GraphHeader], tokens: Path
) -> Transducer:
    encoder, path = headers["encoder"], parts["encoder"]
    acoustic = replace(read_nemo_encoder(path, encoder), frames_last=True)
    live = acoustic if acoustic.is_live else in_windows(acoustic)
    if not acoustic.is_live:
        acoustic = replace(acoustic, features=NEMO_TRANSDUCER)
    inputs = [item.name for item in headers["decoder"].inputs]
    if len(inputs) != 4:
        raise UnfitModelError(
            f"its {parts['decoder'].name} takes {', '.join(inputs)}; that of NeMo takes a unit, "
            "a length and two states"
        )
    size = whole_number(encoder, path, "vocab_size") + 1
    is_tdt = "tdt" in encoder.metadata.get("url", "")
    width = headers["joiner"].outputs[0].dims[-1:]
    if width and isinstance(width[0], int) and (width[0] <= size if is_tdt else width[0] != size):
        raise UnfitModelError(
            f"its {parts['joiner'].name} writes {width[0]} units{' and durations' * is_tdt}, and "
            f"its {path.name} says {size}: they are of different models"
        )
    sizes = (whole_number(encoder, path, key) for key in ("pred_rnn_layers", "pred_hidden"))
    return Transducer(
        folder=folder,
        parts=parts,
        headers=headers,
        tokens=read_tokens(tokens, size, blank=size - 1),
        encoder=acoustic,
        live=live,
        blank=size - 1,
        lstm=Lstm(*sizes),
        is_tdt=is_tdt,
    )
