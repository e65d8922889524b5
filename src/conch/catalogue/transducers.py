"""Folders of transducers as icefall exports them for sherpa-onnx, checked without loading them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import Found, UnfitModelError, size_of
from conch.catalogue.encoders import Encoder, read_encoder
from conch.catalogue.exports import (
    TOKENS,
    chosen_file,
    files_in,
    header_of,
    read_tokens,
    whole_number,
)
from conch.catalogue.onnx_header import Header

TYPES = ("zipformer2", "zipformer", "conformer", "lstm", "ebranchformer")
"""Values of `model_type` in an encoder's metadata. Only their names are known here: what an encoder
keeps from chunk to chunk is read from its inputs."""
PARTS = ("encoder", "decoder", "joiner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transducer:
    """A complete folder."""

    folder: Path
    parts: Mapping[str, Path]
    """The files, by the names in `PARTS`."""
    headers: Mapping[str, Header]
    tokens: tuple[str, ...]
    """Symbol of each unit. The first is the blank."""
    context_size: int
    """Units before the next one that the decoder reads."""
    encoder: Encoder


def check_transducer(folder: Path) -> Found:
    """Check a folder, and return what it is; the errors are those of `read_transducer`."""
    found = read_transducer(folder)
    kind = found.headers["encoder"].metadata.get("model_type", "")
    return Found(
        None,
        size_of(folder),
        family=f"transducer ({kind})" if kind else "transducer",
        features=f"{found.encoder.num_mels} mel filters of Kaldi, every 10 ms",
        units=len(found.tokens),
        is_live=found.encoder.is_live,
    )


def read_transducer(folder: Path, precision: str = "float32") -> Transducer:
    """Return what a folder holds, without its weights.

    Args:
        folder: Has `encoder*.onnx`, `decoder*.onnx`, `joiner*.onnx` and `tokens.txt`, or folders
            with them.
        precision: Which files are taken where there are several: those in float32, or in int8.

    Raises:
        UnfitModelError: a file is missing or broken, or is of another kind of model.
    """
    try:
        chosen = {part: chosen_file(folder, part, precision) for part in PARTS}
        tokens = files_in(folder, TOKENS)
        parts = {part: path for part, path in chosen.items() if path}
        lacking = [f"{part}*.onnx" for part in PARTS if part not in parts]
        if lacking or not tokens:
            raise UnfitModelError(
                f"it lacks {', '.join([*lacking, *([] if tokens else [TOKENS])])}; a transducer "
                f"has encoder*.onnx, decoder*.onnx, joiner*.onnx and {TOKENS}, as icefall exports "
                "them for sherpa-onnx"
            )
        headers = {part: header_of(path) for part, path in parts.items()}
        return _transducer(folder, parts, headers, tokens[0])
    except OSError as error:
        raise UnfitModelError(f"it cannot be read: {error}") from None


def _transducer(
    folder: Path, parts: Mapping[str, Path], headers: Mapping[str, Header], tokens: Path
) -> Transducer:
    encoder, decoder = headers["encoder"], headers["decoder"]
    name = parts["encoder"].name
    kind = encoder.metadata.get("model_type", "")
    if kind and kind not in TYPES:
        raise UnfitModelError(
            f"its {name} has model_type {kind!r:.60}; those served are {', '.join(TYPES)}"
        )
    size = whole_number(decoder, parts["decoder"], "vocab_size")
    width = headers["joiner"].outputs[0].dims[-1:]
    if width and isinstance(width[0], int) and width[0] != size:
        raise UnfitModelError(
            f"its {parts['joiner'].name} writes {width[0]} units and its "
            f"{parts['decoder'].name} reads {size}: they are of different models"
        )
    return Transducer(
        folder=folder,
        parts=parts,
        headers=headers,
        tokens=read_tokens(tokens, size),
        context_size=whole_number(decoder, parts["decoder"], "context_size"),
        encoder=read_encoder(parts["encoder"], encoder),
    )
