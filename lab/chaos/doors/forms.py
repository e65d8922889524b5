"""The gateway's HTTP: forms, JSON bodies and other requests of its addresses."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from lab.chaos.answers import Answer
from lab.chaos.doors.target import FILES, Target, answered, post
from lab.chaos.drawn import TEXTS, mostly, nested, options, scalars, values
from lab.chaos.speech import files

SECRETS = ("/v1/realtime/client_secrets", "/v1/realtime/transcription_sessions")
FIELDS = (
    *("model", "language", "languages[]", "prompt", "keywords[]", "response_format"),
    *("temperature", "stream", "timestamp_granularities[]", "include[]", "chunking_strategy"),
    *("known_speaker_names[]", "file", "deadline_ms"),
)
FORM_VALUES = (
    *("conch", "conch-ctc", "conch-wfst", "en", "json", "verbose_json", "srt", "vtt", "true"),
    *("word", "segment", "logprobs", "auto", '{"type":"server_vad"}', '{"type":'),
)
OTHERS = (
    *("/v1/models", "/v1/options", "/v1/components", "/health/ready", "/metrics", "/docs"),
    *("/openapi.json", "/"),
)
NESTED = b"[" * 1_200_000
"""JSON that is nested deeper than most parsers' stacks."""
BOUNDARY = "b0undary"


@dataclass(frozen=True, slots=True)
class GatewayCall:
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"

    async def send(self, target: Target) -> list[Answer]:
        url, headers = target.gateway(self.path), dict(self.headers)
        coming = post(target, url, self.body, headers, method=self.method, is_gateway=True)
        return [await answered(coming)]


@st.composite
def form_calls(draw: st.DrawFn) -> GatewayCall:
    fields: list[tuple[str, str]] = [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in draw(st.one_of(st.just({}), options())).items()
    ]
    names = st.one_of(st.sampled_from(FIELDS), st.sampled_from(TEXTS), st.text(max_size=8))
    texts = st.one_of(st.sampled_from([*FORM_VALUES, *TEXTS]), scalars().map(str))
    fields += draw(st.lists(st.tuples(names, texts), max_size=4))
    count = draw(st.sampled_from([1] * 8 + [0, 2]))
    wav = files()["wav"][: draw(st.sampled_from([8_044] * 5 + [44, 20, 0]))]
    parts = [_part(name, value.encode(errors="replace")) for name, value in fields]
    parts += [_part("file", wav, 'filename="talk.wav"')] * count
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    cut = st.integers(0, len(body)).map(lambda at: body[:at])
    body = draw(mostly(st.just(body), st.one_of(cut, st.just(body.replace(b"\r\n", b"\n")))))
    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    others = ["multipart/form-data", "multipart/mixed; boundary=x", "application/json", "a/b; c"]
    return GatewayCall(
        FILES, body, {"Content-Type": draw(st.sampled_from([content_type] * 12 + others))}
    )


@st.composite
def gateway_calls(draw: st.DrawFn) -> GatewayCall:
    if draw(st.booleans()):
        session = draw(st.one_of(values(), _sessions()))
        document = {"session": session, "expires_after": draw(values())}
        body = json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        shape = draw(st.integers(0, 19))
        if shape == 0:
            body = NESTED[: draw(st.sampled_from([2_000, 8_000, 1_200_000]))]
        elif shape == 1:
            # 40 MB of blanks in 40 kB.
            body, headers["Content-Encoding"] = gzip.compress(b" " * 40_000_000), "gzip"
        elif shape == 2:
            body = body[: draw(st.integers(0, len(body)))]
        return GatewayCall(draw(st.sampled_from(SECRETS)), body, headers)
    path = draw(st.sampled_from([*OTHERS, FILES, *SECRETS, "/v1/conch/listen", "/v1/realtime"]))
    query = draw(st.lists(st.tuples(st.sampled_from([*FIELDS, "encoding"]), scalars()), max_size=3))
    pairs = "&".join(f"{name}={_quoted(value)}" for name, value in query)
    methods = ["GET", "GET", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"]
    headers = {"X-Request-Id": draw(st.sampled_from(["a", "a" * 200, "ü", ""]))}
    if draw(st.integers(0, 3)) == 0:
        headers["Origin"] = draw(st.sampled_from(["https://elsewhere.org", "null", ""]))
    return GatewayCall(f"{path}?{pairs}", b"", headers, draw(st.sampled_from(methods)))


@cache
def _sessions() -> st.SearchStrategy[dict[str, Any]]:
    inputs = st.fixed_dictionaries(
        {},
        optional={
            "format": values(),
            "transcription": st.one_of(values(), options()),
            "turn_detection": st.one_of(values(), options()),
            "noise_reduction": values(),
        },
    )
    audio = inputs.map(lambda settings: {"input": settings})
    deep = st.integers(1, 900).map(nested)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["transcription", "realtime"])},
        optional={
            "audio": st.one_of(audio, audio, values(), deep),
            "include": values(),
            "conch": st.one_of(options(), values()),
        },
    )


def _part(name: str, value: bytes, more: str = "") -> bytes:
    shown = name.encode(errors="replace").replace(b'"', b"%22").replace(b"\r", b"")
    head = b'Content-Disposition: form-data; name="' + shown.replace(b"\n", b"") + b'"'
    rest = f"; {more}".encode() if more else b""
    return f"--{BOUNDARY}\r\n".encode() + head + rest + b"\r\n\r\n" + value + b"\r\n"


def _quoted(value: Any) -> str:
    return quote(str(value), errors="replace")
