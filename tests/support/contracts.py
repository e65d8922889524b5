"""The tensors of a config.pbtxt, and those of component_models/README.md, in one form."""

import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

TYPES = {"TYPE_STRING": "BYTES"}
_TABLE = re.compile(r"<!-- tensors of ([\w, ]+) -->\n(.*?)<!-- /tensors -->", re.S)
_ROW = re.compile(r"\| (in|out) (`.+?`) \| (\w+) \[(.+?)\](, optional)? \| .+ \|")

_ATTENTION = {
    "beam_size": int,
    "nbest": int,
    "language": str,
    "languages": str,
    "task": str,
    "align": bool,
    "prompt": str,
}
_SEARCH = {
    "decoder": str,
    "beam_size": int,
    "nbest": int,
    "lm_fusion": bool,
    "language": str,
    # Numbers are texts: a call inside Triton carries no fractions.
    "lm_weight": str,
    "word_bonus": str,
    "hotword_weight": str,
    "hotwords": str,
    "skip_foreign": bool,
}
_LIVE_SEARCH = {**_SEARCH, "is_over": bool}
PARAMETERS: dict[str, dict[str, type]] = {
    "attention_encoder": {"min_window_ms": int, "window_margin_ms": int},
    "attention_decoder": _ATTENTION,
    "moonshine_decoder": {**_ATTENTION, "said": str, "draft": str},
    "ctc_decoder": {**_SEARCH, "lattice": bool},
    "ctc_streaming_decoder": _LIVE_SEARCH,
    "transducer_encoder": {"language": str},
    "transducer_decoder": _SEARCH,
    "transducer_streaming_encoder": {"language": str},
    "transducer_streaming_decoder": _LIVE_SEARCH,
    "wenet_decoder": {**_SEARCH, "own_rescore": bool},
    "wenet_streaming_decoder": {**_LIVE_SEARCH, "own_rescore": bool},
    "paraformer": {"language": str, "hotwords": str},
    "paraformer_online": {"language": str, "hotwords": str},
    "paraformer_online_decoder": _LIVE_SEARCH,
    "sensevoice": {**_SEARCH, "itn": bool},
    "kaldi_decoder": _SEARCH,
    "kaldi_streaming_decoder": _LIVE_SEARCH,
    "speaker_embedding": {"narrow_band": bool},
    "text_frontend": {"voice": str, "normalize": bool},
    "kokoro_gradient": {"voice": str, "seed": int},
    **{
        f"{family}{name}": {"voice": str, "seed": int}
        for family in ("", "kokoro_", "piper_")
        for name in ("acoustic", "vocoder")
    },
}
"""Types of the request parameters that the components take."""

Tensor = tuple[str, str, str, list[int], bool]
"""Direction, name, type and dims of a tensor, and whether it is optional."""


def parsed(path: Path) -> Any:
    return text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())


def tensors(specs: Any) -> dict[str, str]:
    names = {item.name: model_config_pb2.DataType.Name(item.data_type) for item in specs}
    return {name: TYPES.get(kind, kind.removeprefix("TYPE_")) for name, kind in names.items()}


def documented(text: str) -> dict[str, list[Tensor]]:
    """Return the tensors of each component in the tables of a document."""
    tables: dict[str, list[Tensor]] = {}
    for components, table in _TABLE.findall(text):
        _, _, *rows = table.splitlines()
        read = [tensor for row in rows for tensor in _documented(row)]
        tables |= dict.fromkeys(components.split(", "), read)
    return tables


def _documented(row: str) -> list[Tensor]:
    match = _ROW.fullmatch(row)
    assert match, f"no row of a table of tensors: {row}"
    direction, names, kind, dims, optional = match.groups()
    sizes = [*map(int, dims.split(", "))]
    return [
        (direction, name, kind, sizes, optional is not None)
        for name in re.findall(r"`(\w+)`", names)
    ]


def configured(config: Any) -> list[Tensor]:
    """Return the tensors of a config."""
    found = []
    for direction, specs in (("in", config.input), ("out", config.output)):
        kinds = tensors(specs)
        # An output has no field `optional`: a caller asks for those that it wants.
        found += [
            (direction, it.name, kinds[it.name], [*it.dims], getattr(it, "optional", False))
            for it in specs
        ]
    return found
