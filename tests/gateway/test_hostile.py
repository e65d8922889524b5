"""What strangers send to make a gateway work, wait or grow; no speech server hears of it."""

import asyncio
import gzip
import http.client
import io
import itertools
import json
import re
import resource
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
from http_answers import asked
from lone_gateway import address_of, lone_gateway
from waiting import wait_until

from conch.gateway.bodies import read_json
from conch.gateway.config import GatewayConfig, Times
from conch.gateway.errors import api_error
from conch.gateway.file_answer import headers
from conch.gateway.file_request import parse
from conch.gateway.realtime.events import read_event
from conch.gateway.service import most_connections
from conch.gateway.state import ARRIVING
from conch.gateway.wyoming.connection import CONNECTIONS_A_SESSION
from conch.wire.errors import ComponentError

FILES = "/v1/audio/transcriptions"
SECRETS = "/v1/realtime/client_secrets"
SPEECH = "/v1/audio/speech"
FORMAT = "/v1/format"
BOUNDARY = "x"
CHUNKED = "Transfer-Encoding: chunked"
HOST = "127.0.0.1"


@contextmanager
def serving(**settings: Any) -> Iterator[int]:
    """Yield the port of a gateway in front of nothing, which takes files of one megabyte."""
    with lone_gateway(**{"max_body_mb": 1, **settings}) as service:
        yield address_of(service)[1]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


def part(name: str, value: bytes, filename: str = "") -> bytes:
    of_file = f'; filename="{filename}"' if filename else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{of_file}\r\n\r\n'
    return head.encode() + value + b"\r\n"


LAST = f"--{BOUNDARY}--\r\n".encode()
TYPES = {FILES: f"multipart/form-data; boundary={BOUNDARY}"}
"""Content types of what is no JSON."""


def form(*parts: bytes, file: bytes = b"RIFF") -> bytes:
    return b"".join([*parts, part("file", file, "a.wav"), LAST])


def post(
    port: int, path: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str]]:
    """Return the status and the error of an answer."""
    headers = {"Content-Type": TYPES.get(path, "application/json"), **(headers or {})}
    answer = asked("POST", f"http://{HOST}:{port}{path}", data=io.BytesIO(body), headers=headers)
    return answer.status, answer.body["error"] if answer.status >= 400 else {}


def rest_of(connection: socket.socket) -> bytes:
    """Return what comes until the gateway closes a connection."""
    connection.settimeout(20)
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def answer_of(port: int, *parts: bytes, file: bytes = b"RIFF") -> tuple[int, str]:
    """Return the status and the code of the answer to a form."""
    status, error = post(port, FILES, form(*parts, file=file))
    return status, error["code"]


PASSED = 503, "no_server"
"""Of a form in which nothing is wrong: there is no server behind the gateway."""


def test_a_body_that_swells_is_refused_at_the_limit_of_what_it_holds(port: int) -> None:
    begin, end = form(file=b"|").split(b"|")
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    # In pieces: it is in no memory as a whole, which would hide how much the gateway takes.
    pieces = map(packer.compress, [begin, *[bytes(1_000_000)] * 400, end])
    swollen = b"".join(pieces) + packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, error = post(port, FILES, swollen, {"Content-Encoding": "gzip"})
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (status, error["code"], error["param"]) == (413, "file_too_large", "file")
    assert "1 MB" in error["message"]
    assert grown_mb < 200


def test_a_compressed_form_within_the_limit_is_read(port: int) -> None:
    status, error = post(port, FILES, gzip.compress(form()), {"Content-Encoding": "gzip"})
    assert (status, error["code"]) == PASSED


@pytest.mark.parametrize(
    ("size", "answer"), [(1_000_000, PASSED), (1_000_001, (413, "file_too_large"))]
)
def test_a_file_has_its_limit(port: int, size: int, answer: tuple[int, str]) -> None:
    assert answer_of(port, file=bytes(size)) == answer


@contextmanager
def begun(port: int, head: str, body: bytes = b"", path: str = FILES) -> Iterator[socket.socket]:
    """Yield the connection of a request of which no more than a beginning comes."""
    content_type = TYPES.get(path, "application/json")
    lines = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {content_type}\r\n{head}\r\n\r\n"
    )
    with socket.create_connection((HOST, port), timeout=20) as connection:
        connection.sendall(lines.encode() + body)
        yield connection


@pytest.mark.parametrize("length", ["Content-Length: 1500000", CHUNKED])
def test_an_upload_without_room_is_refused_before_it_is_read(length: str) -> None:
    with serving(max_body_mb=1.5, max_upload_mb=2) as port:
        wav = bytes(1_000_000)
        with begun(port, length), begun(port, length) as second:
            # Not one byte of its body was sent.
            answer = second.recv(65_536).decode()
            assert answer.startswith("HTTP/1.1 503")
            assert "\r\nRetry-After: 2\r\n" in answer
            assert "this gateway holds 2 MB" in answer
            assert answer_of(port, file=wav) == (503, "overloaded")
            # A small one has its room.
            assert answer_of(port) == PASSED
        wait_until(lambda: answer_of(port, file=wav) == PASSED)


def metrics(port: int) -> str:
    text = asked("GET", f"http://{HOST}:{port}/metrics").body
    assert isinstance(text, str)
    return text


def has_metric(port: int, line: str) -> bool:
    return f"\n{line}\n" in metrics(port)


def test_uploads_that_do_not_come_keep_no_place_from_the_others() -> None:
    with serving(max_files=1) as port, ExitStack() as stack:
        for _ in range(ARRIVING - 1):
            stack.enter_context(begun(port, "Content-Length: 9000"))
        wait_until(lambda: has_metric(port, f"conch_gateway_files {ARRIVING - 1}.0"))
        assert answer_of(port) == PASSED
        stack.enter_context(begun(port, "Content-Length: 9000"))
        wait_until(lambda: has_metric(port, f"conch_gateway_files {ARRIVING}.0"))
        status, error = post(port, FILES, form())
        assert (status, error["code"]) == (503, "overloaded")
        assert error["message"] == f"{ARRIVING} files are uploaded; try again later"
        stack.close()
        wait_until(lambda: answer_of(port) == PASSED)


def test_a_text_that_does_not_come_keeps_no_place_from_the_others() -> None:
    with serving(max_files=1) as port, begun(port, "Content-Length: 99", path=SPEECH):
        wait_until(lambda: has_metric(port, "conch_gateway_texts 1.0"))
        assert post(port, SPEECH, b'{"input": "Hi."}')[1]["code"] == PASSED[1]


def test_a_file_larger_than_all_room_is_too_large() -> None:
    default = GatewayConfig().max_body_mb
    with serving(max_body_mb=default, max_upload_mb=1) as port:
        status, error = post(port, FILES, form(file=bytes(1_000_001)))
    assert (status, error["code"]) == (413, "file_too_large")
    assert "more than 1 MB" in error["message"]


def test_uploads_are_not_written_on_the_event_loop(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    class File(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, piece: bytes) -> int:  # type: ignore[override]
            nonlocal written
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            written += len(piece)
            return super().write(piece)

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", File)
    assert answer_of(port) == PASSED
    assert written == len(b"RIFF")


def fields(count: int, size: int) -> list[bytes]:
    return [part(f"field{number}", b"n" * size) for number in range(count)]


AUDIO = part("known_speaker_references[]", b"n" * 7_900_000)


@pytest.mark.parametrize(
    ("within", "beyond", "passed"),
    [
        (fields(255, 1), fields(256, 1), PASSED),  # beside the file
        ([part("n" * 128, b"1")], [part("n" * 129, b"1")], PASSED),
        (fields(1, 65_536), fields(1, 65_537), PASSED),
        (fields(8, 65_536), [*fields(8, 65_536), part("last", b"n")], PASSED),
        (
            [AUDIO, part("known_speakers", b"n" * 100_000)],
            [AUDIO, part("known_speakers", b"n" * 100_001)],
            (400, "invalid_value"),
        ),
    ],
    ids=["fields", "name", "field", "all fields", "all fields with audio"],
)
def test_a_form_has_its_limits(
    port: int, within: list[bytes], beyond: list[bytes], passed: tuple[int, str]
) -> None:
    assert answer_of(port, *within) == passed
    assert answer_of(port, *beyond) == (400, "invalid_form")


@pytest.mark.parametrize(("count", "status"), [(100, 200), (200, 400)])
def test_a_request_has_so_many_headers_at_most(port: int, count: int, status: int) -> None:
    with socket.create_connection((HOST, port)) as connection:
        headers = "".join(f"X-{number}: 1\r\n" for number in range(count))
        head = f"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n"
        connection.sendall(head.encode())
        assert rest_of(connection).split()[1] == str(status).encode()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


DEEP = "[" * 30_000


@pytest.mark.parametrize("name", ["chunking_strategy", "include[]", "timestamp_granularities[]"])
def test_a_field_that_is_nested_deep_is_refused(port: int, name: str) -> None:
    for value in (DEEP + "]" * 30_000, DEEP, nested(33)):
        status, error = post(port, FILES, form(part(name, value.encode())))
        assert (status, error["code"]) == (400, "invalid_value")
        assert len(error["message"]) < 300


def test_json_has_a_depth_and_a_size() -> None:
    assert read_json(nested(32)) is not None
    assert read_json("[" + ",".join("1" * 10_000) + "]") == [1] * 10_000
    assert read_json(json.dumps({"a": ',"[' * 10_000})) == {"a": ',"[' * 10_000}
    with pytest.raises(ValueError, match="Unterminated string"):
        read_json('"\\' * 500_000 + '"')
    for text in (nested(33), nested(9_000)):
        with pytest.raises(ValueError, match="nested at most 32 deep"):
            read_json(text)
    with pytest.raises(ValueError, match="at most 10000 commas, lists and objects"):
        read_json("[" + ",".join("1" * 10_001) + "]")
    with pytest.raises(ValueError, match="at most 10000 commas, lists and objects"):
        read_json(nested(1_000_000))
    with pytest.raises(ValueError, match="nested at most 32 deep"):
        read_json('{"a":' * 9_000)


def test_an_event_that_is_nested_deep_is_refused() -> None:
    assert read_event('{"type": "session.update", "session": ' + nested(31) + "}").fields
    for depth in (32, 4_000, 1_000_000):
        with pytest.raises(Exception, match="an event is JSON: it takes") as refused:
            read_event('{"type": "session.update", "session": ' + nested(depth) + "}")
        assert getattr(refused.value, "status", None) == 400


@pytest.mark.parametrize("body", [nested(4_000), '{"session": ' + nested(32) + "}", "{" * 8_000])
def test_a_body_that_is_nested_deep_is_refused(port: int, body: str) -> None:
    status, error = post(port, SECRETS, body.encode())
    assert (status, error["code"]) == (400, "invalid_value")


@pytest.mark.parametrize(("size", "status"), [(8_192, 200), (8_193, 400)])
def test_a_body_of_settings_has_its_limit(port: int, size: int, status: int) -> None:
    body = b'{"session": {}}'.ljust(size)
    assert post(port, SECRETS, body)[0] == status


def test_ignored_fields_do_not_swell_the_headers() -> None:
    fields = {f"field{number}" + "x" * 100: ("1",) for number in range(200)}
    assert len(headers(parse(fields, {}))["x-conch-ignored"]) < 4_000


def test_half_sent_uploads_are_given_up() -> None:
    halves = [b"", part("file", bytes(9_000), "a.wav")[:-2], part("language", b"e")[:-2]]
    with serving(times=Times(idle_s=1.0)) as port, ExitStack() as stack:
        connections = [
            stack.enter_context(begun(port, "Content-Length: 900000", half)) for half in 20 * halves
        ]
        for connection in connections:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 408 ")
        assert answer_of(port) == PASSED


def file_in_pieces() -> Iterator[bytes]:
    """Yield a file that comes faster than any upload must."""
    yield part("file", b"", "a.wav")[:-2]
    yield from itertools.repeat(bytes(5000))


def fields_one_by_one() -> Iterator[bytes]:
    for number in itertools.count():
        yield part(f"field{number}", b"1")


@pytest.mark.parametrize(
    ("pieces", "length", "upload_s", "said"),
    [
        (fields_one_by_one, CHUNKED, 3600.0, b"bytes a second come"),
        (file_in_pieces, "Content-Length: 900000", 1.0, b"less than 900000 bytes a second come"),
        (file_in_pieces, CHUNKED, 1.0, b"no end came within 1 s"),
    ],
)
def test_an_upload_that_trickles_or_has_no_end_is_given_up(
    pieces: Callable[[], Iterator[bytes]], length: str, upload_s: float, said: bytes
) -> None:
    to_send, answers = pieces(), list[bytes]()
    with (
        serving(times=Times(idle_s=0.5, upload_s=upload_s)) as port,
        begun(port, length) as connection,
    ):
        connection.setblocking(False)

        def is_answered() -> bool:
            """Send a further piece, each in time, and look for the answer."""
            with suppress(BlockingIOError):
                answers.append(connection.recv(65_536))
                return True
            piece = next(to_send)
            if length == CHUNKED:
                piece = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
            connection.sendall(piece)
            return False

        wait_until(is_answered, 20)
    assert answers[0].startswith(b"HTTP/1.1 408 ")
    assert said in answers[0]


def test_a_body_of_settings_that_does_not_come_is_given_up() -> None:
    with (
        serving(times=Times(settings_s=0.5)) as port,
        begun(port, "Content-Length: 99", b"{", SECRETS) as connection,
    ):
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: a", b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGE"],
    ids=["nothing", "half a request", "half a second request"],
)
def test_a_connection_without_a_whole_request_is_closed(sent: bytes) -> None:
    with (
        serving(times=Times(keep_alive_s=1.0)) as port,
        socket.create_connection((HOST, port)) as connection,
    ):
        connection.sendall(sent)
        began = time.monotonic()
        rest_of(connection)
        assert time.monotonic() - began < 15


def test_the_name_of_a_segment_reaches_no_client() -> None:
    name = "conch-1a2b3c4d5e6f-5f9fe2c6-9a7d-4d6f-8c1b-0a1b2c3d4e5f"
    answer = api_error(ComponentError(f"vad: cannot map key '{name}' of 9 bytes"))
    assert str(answer) == "vad: cannot map key … of 9 bytes"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 250_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 20_000 + b"\r\n\r\n",
    ],
    ids=["long line", "version", "no host", "long header"],
)
def test_wrong_http_is_one_short_line_of_the_log(
    port: int, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), socket.create_connection((HOST, port), timeout=10) as line:
        line.sendall(sent)
        assert line.recv(12) == b"HTTP/1.0 400"
    (record,) = [item for item in caplog.records if item.name == "conch.gateway.http"]
    assert record.levelname == "INFO" and not record.exc_info
    assert record.getMessage().startswith("wrong HTTP: ")
    assert len(record.getMessage()) < 150 and "\n" not in record.getMessage()


def test_wrong_http_is_not_shown_from_warnings_up(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "conch.gateway.http")
    with socket.create_connection((HOST, port), timeout=10) as line:
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.0 400"
    assert [item for item in caplog.records if item.name == "conch.gateway.http"] == []


def test_connections_beyond_the_file_descriptors_are_ended_and_the_others_served() -> None:
    with ExitStack() as stack:
        port = stack.enter_context(serving(max_connections=5))

        def connect() -> http.client.HTTPConnection:
            return stack.enter_context(closing(http.client.HTTPConnection(HOST, port, timeout=10)))

        def is_served(line: http.client.HTTPConnection) -> bool:
            try:
                line.request("GET", "/health/live")
                answer = line.getresponse()
            except ConnectionError:
                return False
            answer.read()
            return answer.status == 200

        lines = [connect() for _ in range(5)]
        assert all(map(is_served, lines))
        assert not is_served(connect())
        assert all(map(is_served, lines))
        lines[0].close()
        wait_until(lambda: is_served(connect()))


def test_a_gateway_leaves_file_descriptors_for_all_else() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
        assert hard // 2 <= most_connections() < hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


DIGITS = "9" * 400
"""More than a float holds."""


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        *(
            (SPEECH, {"input": "Hi.", name: 0}, name)
            for name in ("speed", "sample_rate", "lead_ms")
        ),
        (SECRETS, {"expires_after": {"seconds": 0}}, "expires_after.seconds"),
        (
            SECRETS,
            {"session": {"audio": {"input": {"turn_detection": {"threshold": 0}}}}},
            "session.audio.input.turn_detection.threshold",
        ),
    ],
)
def test_a_number_of_any_length_is_out_of_range(
    port: int, path: str, body: dict[str, Any], param: str
) -> None:
    status, error = post(port, path, json.dumps(body).replace("0", DIGITS).encode())
    assert (status, error["code"], error["param"]) == (400, "invalid_value", param)
    # Python reads no longer ones.
    status, error = post(port, path, json.dumps(body).replace("0", 20 * DIGITS).encode())
    assert (status, error["code"], error["param"]) == (400, "invalid_value", "body")


@pytest.mark.parametrize("value", [b"utf-8", b"UTF-8\r\n", b"x" * 32])
@pytest.mark.parametrize("before", [[], [part("language", b"en")]], ids=["first", "second"])
def test_a_field_with_the_encoding_of_the_others_is_one_like_them(
    port: int, value: bytes, before: list[bytes]
) -> None:
    assert answer_of(port, *before, part("_charset_", value)) == PASSED


@pytest.mark.parametrize("boundary", ["a;b", "a b", "y" * 70])
def test_a_boundary_is_read_as_it_is_quoted(port: int, boundary: str) -> None:
    body = form(part("_charset_", b"utf-8")).replace(b"--x", f"--{boundary}".encode())
    content_type = {"Content-Type": f'multipart/form-data; boundary="{boundary}"'}
    status, error = post(port, FILES, body, content_type)
    assert (status, error["code"]) == PASSED


JSON = {
    SPEECH: b'{"input": "Hi."}',
    FORMAT: b'{"transcript": {"segments": []}}',
    SECRETS: b"{}".ljust(99),
}


def answer_to(port: int, path: str, head: str, body: bytes) -> bytes:
    """Return the answer to a body that comes after its request has begun."""
    with begun(port, f"{head}\r\nExpect: 100-continue", path=path) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        return connection.recv(65_536)


@pytest.mark.parametrize("path", [FILES, *JSON])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_plain_body_that_is_called_compressed_is_refused(
    port: int, path: str, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = JSON.get(path, form())
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}"
    answer = answer_to(port, path, head, body)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"is damaged: " in answer and encoding.encode() in answer
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("path", [FILES, *JSON])
def test_a_broken_chunk_is_answered_at_once(port: int, path: str) -> None:
    body = JSON.get(path, form())[:-1]
    sent = f"{len(body):x}\r\n".encode() + body + b"\r\nno chunk\r\n"
    answer = answer_to(port, path, CHUNKED, sent)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"is damaged: Invalid character in chunk size: b'no chunk'" in answer


def test_a_full_disk_is_named(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Each write to this file finds the disk full.
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b"))  # noqa: SIM115
    monkeypatch.setattr("conch.gateway.form.MEMORY_BYTES", 1000)
    status, error = post(port, FILES, form(file=bytes(900_000)))
    assert (status, error["code"]) == (507, "disk_full")
    assert "MB are free where it keeps uploads" in error["message"]
    assert tempfile.gettempdir() not in error["message"]
    assert f"no room for an upload in {tempfile.gettempdir()}" in caplog.text
    assert answer_of(port) == PASSED


def test_addresses_that_do_not_exist_are_one_label(port: int) -> None:
    paths = ("/a", "/v1/b", "/page/c", "/page/d", "/v1/models/e")
    for path in paths:
        asked("GET", f"http://{HOST}:{port}{path}")
    routes = set(re.findall(r'conch_gateway_requests_total{.*route="([^"]+)"', metrics(port)))
    assert {"other", "/v1/models/{model}"} < routes
    assert routes.isdisjoint(paths)


def test_connections_of_wyoming_are_limited() -> None:
    with lone_gateway(wyoming=(HOST, 0), max_sessions=1) as service, ExitStack() as stack:

        def is_served() -> bool:
            address = address_of(service, "wyoming")
            line = stack.enter_context(socket.create_connection(address, timeout=20))
            with suppress(ConnectionError):
                line.sendall(b'{"type": "describe"}\n')
                return b'"info"' in line.recv(65_536)
            return False

        assert [is_served() for _ in range(CONNECTIONS_A_SESSION)] == [True] * CONNECTIONS_A_SESSION
        assert not is_served()
        stack.close()
        wait_until(is_served)
