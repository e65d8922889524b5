"""Triton's HTTP: inference requests of JSON and of bytes, whole and damaged."""

import json
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from lab.chaos.answers import Answer
from lab.chaos.doors.target import Target, answered, post
from lab.chaos.drawn import HUGE, TEXTS, has_rows, mostly, options, samples, values

INPUTS = {"WAV": "FP32", "PCM16": "INT16", "WAV_LENS": "INT32", "SAMPLE_RATE": "INT32"}
TYPES = (
    *("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "UINT64"),
    *("FP16", "FP32", "FP64", "BYTES", "BF16", "", "FP33"),
)
PATHS = (
    *("/v2/models/speech/infer",) * 16,
    "/v2/models/speech/versions/1/infer",
    "/v2/models/speech/versions/9/infer",
    "/v2/models/speech_stream/generate_stream",
    "/v2/models/speech_stream/generate",
    "/v2/models/nothing/infer",
    "/v2/models/vad/infer",
    "/v2/models/%00/infer",
    "/v2/repository/models/speech/unload",
    "/v2/systemsharedmemory/region/x/register",
    "/v2/cudasharedmemory/status",
    "/v2/models/speech/trace/setting",
    "/v2/logging",
)
CLOSED = ("/v2/repository", "/v2/systemsharedmemory", "/v2/cudasharedmemory", "/v2/logging")
"""Beginnings of paths that must not answer a client."""


@dataclass(frozen=True, slots=True)
class HttpCall:
    path: str
    body: bytes
    json_bytes: int | None = None
    """What `Inference-Header-Content-Length` says, if it is sent."""

    async def send(self, target: Target) -> list[Answer]:
        """Send it; an answer of what must be closed to clients does not hold."""
        headers = {}
        if self.json_bytes is not None:
            headers["Inference-Header-Content-Length"] = str(self.json_bytes)
        answer = await answered(post(target, target.triton(self.path), self.body, headers))
        is_closed = self.path.startswith(CLOSED) or self.path.endswith("/trace/setting")
        if is_closed and answer.status == "200":
            return [Answer("open", f"{self.path} answers clients")]
        return [answer]


@st.composite
def json_calls(draw: st.DrawFn) -> HttpCall:
    tensors = draw(_tensors())
    document: dict[str, Any] = {"inputs": tensors}
    if draw(st.booleans()):
        document["parameters"] = draw(st.one_of(st.just({}), options(), sequences()))
    if draw(st.integers(0, 3)) == 3:
        document["outputs"] = draw(mostly(_outputs(), values()))
    if draw(st.integers(0, 9)) == 9:
        document["id"] = draw(values())
    if draw(st.integers(0, 19)) == 19:
        document = draw(st.dictionaries(st.text(max_size=8), values(), max_size=4))
    text = json.dumps(document).encode()
    return HttpCall(draw(st.sampled_from(PATHS)), draw(_damaged(text)))


@st.composite
def byte_calls(draw: st.DrawFn) -> HttpCall:
    """Return requests with tensors as bytes behind their JSON, whose sizes may be wrong."""
    audio = draw(st.one_of(samples().map(_as_floats), st.binary(max_size=200)))
    name = draw(st.sampled_from([*INPUTS, "AUDIO", "OTHER"]))
    datatype = draw(mostly(st.just(INPUTS.get(name, "BYTES")), st.sampled_from(TYPES)))
    right = [1, 1] if datatype == "BYTES" else [1, len(audio) // (2 if datatype == "INT16" else 4)]
    shape = draw(mostly(st.just(right), _shapes()))
    if datatype == "BYTES":
        length = draw(mostly(st.just(len(audio)), st.integers(0, 2**32 - 1)))
        audio = struct.pack("<I", length) + audio
    wrong_size = st.one_of(st.sampled_from(HUGE), st.integers(0, 40_000))
    size = draw(mostly(st.just(len(audio)), wrong_size))
    tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    tensor["parameters"] = {"binary_data_size": size}
    document = {"inputs": [tensor], "parameters": draw(options())}
    head = json.dumps(document).encode()
    wrong = st.one_of(st.integers(0, 2 * len(head)), st.sampled_from([-1, 2**31, 2**63]))
    said = draw(mostly(st.just(len(head)), wrong))
    return HttpCall(draw(st.sampled_from(PATHS[:18])), head + audio, said)


@cache
def _tensors() -> st.SearchStrategy[list[Any]]:
    one = _good_tensor().map(lambda tensor: [tensor])
    return mostly(one, st.lists(st.one_of(_good_tensor(), _odd_tensor()), max_size=3))


@cache
def _good_tensor() -> st.SearchStrategy[dict[str, Any]]:
    def tensor(data: list[float]) -> dict[str, Any]:
        return {"name": "WAV", "datatype": "FP32", "shape": [1, len(data)], "data": data}

    return samples().map(tensor)


@cache
def _odd_tensor() -> st.SearchStrategy[Any]:
    data = st.one_of(values(), st.lists(st.integers(-5, 20_000), max_size=3))
    tensor = st.fixed_dictionaries(
        {
            "name": st.sampled_from([*INPUTS, "AUDIO", "OTHER", *TEXTS[:3]]),
            "datatype": st.sampled_from(TYPES),
            "shape": st.one_of(_shapes(), values().filter(has_rows)),
            "data": data,
        },
        optional={"parameters": values()},
    )
    return mostly(tensor, values())


@cache
def _shapes() -> st.SearchStrategy[list[int]]:
    sizes = st.one_of(st.integers(-2, 70), st.sampled_from(HUGE))
    return st.lists(sizes, max_size=4).filter(has_rows)


@cache
def sequences() -> st.SearchStrategy[dict[str, Any]]:
    """Return parameters that are no options: the place of a chunk, and those of Triton."""
    return st.fixed_dictionaries(
        {},
        optional={
            "sequence_id": st.one_of(values(), st.integers(1, 5)),
            "sequence_start": st.one_of(st.booleans(), values()),
            "sequence_end": st.one_of(st.booleans(), values()),
            "session": values(),
            "priority": values(),
            "timeout": values(),
            "binary_data_output": values(),
            "triton_enable_empty_final_response": values(),
        },
    )


@cache
def _outputs() -> st.SearchStrategy[list[dict[str, str]]]:
    names = st.sampled_from(["TRANSCRIPTS", "SCORES", "RESULT", "NOTHING", ""])
    return st.lists(names.map(lambda name: {"name": name}), max_size=5)


def _damaged(text: bytes) -> st.SearchStrategy[bytes]:
    cut = st.integers(0, len(text)).map(lambda at: text[:at])
    longer = st.binary(max_size=8).map(lambda more: text + more)
    deep = st.integers(1, 200).map(lambda depth: b"[" * depth + text + b"]" * depth)
    return mostly(st.just(text), st.one_of(cut, longer, deep))


def _as_floats(data: list[float]) -> bytes:
    return struct.pack(f"<{len(data)}f", *data)
