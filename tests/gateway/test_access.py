"""Keys, origins and errors of the application, over real sockets and without a speech server."""

import io
import itertools
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from audio_files import audio_file
from http_answers import Answer, asked
from lone_gateway import address_of, lone_gateway
from yarl import URL

from conch.gateway import keys
from conch.gateway.access import KEY_PROTOCOL
from conch.gateway.limits import Limits
from conch.wire.access import fields_of
from conch.wire.errors import ConfigError

MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
FIELD = b'Content-Disposition: form-data; name="language"'


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keys.KEYS_VARIABLE, raising=False)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield the URL of a gateway with a key, and the key."""
    file = tmp_path / "keys.json"
    key = keys.add_key(file, "anna", Limits(requests_per_minute=3))
    with lone_gateway(keys_file=file) as service:
        yield service.url, key


def get(url: str | URL, method: str = "GET", **settings: Any) -> Answer:
    return asked(method, url, **settings)


def form(file: bytes | None = b"x", **fields: str | bytes) -> aiohttp.FormData:
    data = aiohttp.FormData(default_to_multipart=True)
    if file is not None:
        data.add_field("file", io.BytesIO(file), filename="a.wav")
    for name, value in fields.items():
        data.add_field(name, value if isinstance(value, str) else io.BytesIO(value))
    return data


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/models", "/v1/options", "/metrics", "/v1/conch/listen", "/v1/realtime"),
        *("/v1/audio/transcriptions", "/v1/audio/speech", "/v1/nothing"),
    ],
)
def test_without_the_key_there_is_no_answer(locked: tuple[str, str], path: str) -> None:
    method = "POST" if path.startswith("/v1/audio/") else "GET"
    url, key = locked
    for headers in ({}, bearer("wrong"), {"X-API-Key": key[:-1]}):
        status, answer, body = get(url + path, method, headers=headers)
        assert status == 401
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert answer["x-request-id"].startswith("req_")
        assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/health/live", "/openapi.json"])
def test_what_tells_nothing_needs_no_key(locked: tuple[str, str], path: str) -> None:
    assert get(locked[0] + path)[0] != 401


@pytest.mark.parametrize(
    ("header", "before"),
    [
        *(("Authorization", "Bearer "), ("Authorization", "Token "), ("Authorization", "token ")),
        *(("X-API-Key", ""), ("api-key", "")),
        *(("Sec-WebSocket-Protocol", "token, "), ("Sec-WebSocket-Protocol", "bearer, ")),
        ("Sec-WebSocket-Protocol", f"conch, {KEY_PROTOCOL}"),
    ],
)
def test_the_key_is_taken_from_every_header_that_clients_send(
    locked: tuple[str, str], header: str, before: str
) -> None:
    url, key = locked
    assert get(f"{url}/v1/options", headers={header: before + key})[0] == 200
    assert get(f"{url}/v1/options", headers={header: f"{before}{key[:-1]}"})[0] == 401


def test_errors_of_deepgrams_addresses_have_its_shape(locked: tuple[str, str]) -> None:
    url, _ = locked
    for method, path in itertools.product(("GET", "POST"), ("listen", "speak")):
        status, answer, body = get(f"{url}/v1/{path}", method=method)
        assert (status, body["err_code"]) == (401, "INVALID_AUTH")
        assert body["request_id"] == answer["x-request-id"]


def test_a_used_up_limit_says_when_to_come_back(locked: tuple[str, str]) -> None:
    url, key = locked
    settings: Any = {"method": "POST", "headers": bearer(key)}
    path = f"{url}/v1/audio/transcriptions"
    result = [get(path, data=form(), **settings) for _ in range(4)]
    assert [status for status, _, _ in result] == [503, 503, 503, 429]
    _, headers, body = result[-1]
    assert 1 <= int(headers["Retry-After"]) <= 60
    assert body["error"]["type"] == "rate_limit_error"
    assert "3 requests a minute" in body["error"]["message"]


def test_no_key_reaches_a_log_or_a_metric(
    locked: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    url, key = locked
    with caplog.at_level(logging.DEBUG):
        get(f"{url}/v1/options", headers=bearer(key))
        get(f"{url}/v1/options?key={key}", headers=bearer("conch_wrong"))
        _, _, metrics = get(f"{url}/metrics", headers=bearer(key))
    assert "key anna" in caplog.text
    for secret in (key, "conch_wrong"):
        assert secret not in caplog.text
        assert secret not in metrics
    assert 'key="anna"' in metrics


@pytest.mark.parametrize(
    "header",
    [{"Authorization": "Bearer \udcff"}, {"X-API-Key": "\udcff"}, {"api-key": "\udcfe\udcff"}],
)
def test_a_key_that_is_no_text_is_a_wrong_key(
    locked: tuple[str, str], header: dict[str, str]
) -> None:
    assert raw(locked[0], "/v1/options", header) == 401


@pytest.mark.parametrize(
    "header", [{"Origin": "http://["}, {"Origin": "http://\udcff"}, {"Host": "["}]
)
def test_an_address_that_is_none_is_refused(url: str, header: dict[str, str]) -> None:
    assert raw(url, "/v1/options", header) in (400, 403)


def raw(url: str, path: str, headers: dict[str, str]) -> int:
    """Return the status of a request with headers that no client would write."""
    host, _, port = url.removeprefix("http://").partition(":")
    sent = {"Host": f"{host}:{port}", **headers, "Connection": "close"}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        text = "\r\n".join([*lines, "", ""])
        connection.sendall(text.encode("utf-8", "surrogateescape"))
        answer = connection.makefile("rb").read()
    assert b'"error"' in answer or answer.startswith(b"HTTP/1.1 400")
    return int(answer.split()[1])


def test_a_client_secret_opens_live_sessions_alone_and_ends_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = keys.add_key(file, "anna", Limits())
    upgrade = {"Upgrade": "websocket"}
    with lone_gateway(keys_file=file) as service:
        path = f"{service.url}/v1/realtime/client_secrets"
        status, _, body = get(path, method="POST", headers=bearer(key), json={})
        assert status == 200
        secret = bearer(body["value"])
        # No server is there, but the secret is taken: it is not 401.
        live = f"{service.url}/v1/conch/listen"
        assert get(live, headers=secret)[0] == 426
        for headers in (secret, secret | upgrade):
            assert get(path, method="POST", headers=headers, json={})[0] == 401
            assert get(f"{service.url}/metrics", headers=headers)[0] == 401
            url = f"{service.url}/v1/audio/transcriptions"
            assert get(url, method="POST", headers=headers, data=form())[0] == 401
        keys.remove_key(file, "anna")
        assert get(live, headers=secret)[0] == 401
        key = keys.add_key(file, "anna", Limits())
        assert get(live, headers=secret)[0] == 401, "it was the former key's"
        _, _, body = get(path, method="POST", headers=bearer(key), json={})
        assert get(live, headers=bearer(body["value"]))[0] == 426


def test_a_request_id_comes_back_unless_it_could_harm_a_log(url: str) -> None:
    for sent, is_kept in (("abc-1", True), ("a" * 200, False), ("a b", False)):
        _, headers, _ = get(f"{url}/v1/options", headers={"x-request-id": sent})
        assert (headers["x-request-id"] == sent) is is_kept


def test_each_request_has_a_line_with_the_name_of_its_key(
    locked: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    url, key = locked
    with caplog.at_level(logging.INFO, "conch"):
        for path, headers in (("options", bearer(key)), ("options", {}), ("no\nI1", bearer(key))):
            get(f"{url}/v1/{path}", headers={**headers, "x-request-id": f"mine-{len(headers)}"})
        get(f"{url}/health/live")
    lines = [dict(fields) for record in caplog.records if (fields := fields_of(record))]
    assert all(line.pop("ms") > 0 for line in lines)
    common = {"method": "GET", "route": "/v1/options"}
    missing, unknown = lines[1].pop("error"), lines[2].pop("error")
    assert lines == [
        {**common, "request": "mine-1", "status": 200, "key": "anna", "outcome": "ok"},
        {**common, "request": "mine-0", "status": 401, "key": "none", "outcome": "missing_api_key"},
        {
            "request": "mine-1",
            "method": "GET",
            "route": "other",
            "status": 404,
            "key": "anna",
            "outcome": "unknown_url",
        },
    ]
    assert "key" in missing
    assert unknown.startswith("no such address")


def test_readiness_is_that_of_the_servers(url: str) -> None:
    assert get(f"{url}/health/live")[0] == 200
    assert get(f"{url}/health/ready")[0] == 503


def test_without_a_server_a_file_may_be_sent_again_later(url: str) -> None:
    url = f"{url}/v1/audio/transcriptions"
    status, headers, body = get(url, method="POST", data=form())
    assert (status, body["error"]["code"]) == (503, "no_server")
    assert int(headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [
        ({"json": {"file": "x"}}, 415, "unsupported_media_type"),
        ({"data": form(None, model="conch")}, 400, "missing_file"),
        ({"data": form(b"")}, 400, "invalid_audio"),
        ({"data": form(language=b"x")}, 400, "missing_file"),
        (
            {"data": b"--x\r\n" + FIELD + b"\r\n\r\n\xff\r\n--x--", "headers": MULTIPART},
            400,
            "invalid_form",
        ),
        ({"data": form(prompt="x" * 70_000)}, 400, "invalid_form"),
        ({"data": b"--x\r\nnonsense", "headers": MULTIPART}, 400, "invalid_form"),
        ({"data": b"", "headers": {"Content-Type": "multipart/form-data"}}, 400, "invalid_form"),
    ],
)
def test_a_bad_form_is_told_apart(
    url: str, settings: dict[str, Any], status: int, code: str
) -> None:
    result, _, body = get(f"{url}/v1/audio/transcriptions", method="POST", **settings)
    assert (result, body["error"]["code"]) == (status, code), body


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 20000000"])
def test_a_file_beyond_the_limit_is_refused_while_it_comes(length: str) -> None:
    """A megabyte is taken, and twenty are offered: in pieces, and with their number told."""
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\n{length}\r\n\r\n"
    )
    begin = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    with (
        lone_gateway(max_body_mb=1) as service,
        socket.create_connection(address_of(service)) as connection,
    ):
        connection.sendall(head.encode())
        is_chunked = length.endswith("chunked")
        for piece in (begin, *[bytes(65_536)] * 20):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
        answer = connection.makefile("rb").readline()
    assert answer.split()[1] == b"413"


def test_a_file_that_says_that_it_is_too_long_is_refused() -> None:
    file = audio_file(np.zeros(16_000 * 3, np.int16), 16_000, format="FLAC")
    with lone_gateway(max_audio_s=2.5) as service:
        url = f"{service.url}/v1/audio/transcriptions"
        status, _, body = get(url, method="POST", data=form(file))
        assert (status, body["error"]["code"]) == (413, "audio_too_long")
        assert "3 s of audio" in body["error"]["message"]
        # What tells no length is left to the server.
        assert get(url, method="POST", data=form(b"x"))[0] == 503


def test_an_unknown_address_and_method_are_errors_in_the_same_shape(url: str) -> None:
    status, _, body = get(f"{url}/v1/images", method="POST")
    assert (status, body["error"]["code"]) == (404, "unknown_url")
    assert body["error"]["message"] == "no such address: POST /v1/images; /docs lists them"
    status, _, body = get(f"{url}/v1/audio/transcriptions/", method="POST")
    assert (status, body["error"]["code"]) == (404, "unknown_url")
    assert "did you mean /v1/audio/transcriptions? /docs" in body["error"]["message"]
    status, headers, body = get(f"{url}/v1/audio/transcriptions")
    assert (status, headers["Allow"]) == (405, "POST")


def test_only_pages_that_are_allowed_read_answers() -> None:
    allowed = "https://app.example.com"
    with lone_gateway(allowed_origins=(allowed,)) as service:
        url = f"{service.url}/v1/options"
        assert get(url, headers={"Origin": "https://evil.example.com"})[0] == 403
        status, headers, _ = get(url, headers={"Origin": allowed})
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, allowed)
        assert "x-request-id" in headers["Access-Control-Expose-Headers"]
        status, headers, _ = get(url, headers={"Origin": service.url})
        assert status == 200
        status, headers, _ = get(
            url,
            method="OPTIONS",
            headers={
                "Origin": allowed,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,x-stainless-lang",
            },
        )
        assert status == 204
        assert headers["Access-Control-Allow-Headers"] == "authorization,x-stainless-lang"


def test_a_name_that_was_made_to_point_here_is_refused(url: str) -> None:
    status, _, body = get(f"{url}/v1/options", headers={"Host": "evil.example.com"})
    assert (status, body["error"]["code"]) == (403, "host_not_allowed")
    port = url.rpartition(":")[2]
    assert get(f"{url}/v1/options", headers={"Host": f"localhost:{port}"})[0] == 200


def test_everybody_is_served_only_if_somebody_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--open"):
        lone_gateway(host="0.0.0.0")
    lone_gateway(host="0.0.0.0", is_open=True)
    file = tmp_path / "keys.json"
    keys.add_key(file, "anna", Limits())
    lone_gateway(host="0.0.0.0", keys_file=file)


def test_the_files_of_the_page_are_not_a_way_to_others(url: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("nobody reads this")
    assert get(f"{url}/page/index.html")[0] == 200
    up = "/".join([".."] * 12)
    for path in (
        *(f"/{secret}", f"/%2F{str(secret)[1:]}"),
        *(f"/{up}{secret}", f"/{up}{secret}".replace("/", "%2F")),
        *("/../state.py", "/%2e%2e/state.py", "/..%2fstate.py", "/config.py", "/..", "/.", "/"),
    ):
        status, _, body = get(URL(f"{url}/page{path}", encoded=True))
        assert (status, "nobody" in str(body)) == (404, False), path
