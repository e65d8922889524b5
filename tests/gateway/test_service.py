"""The start and the stop of a gateway, without a speech server."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme
from lone_gateway import address_of, lone_gateway

from conch.cli import main
from conch.client import Client
from conch.client.endpoint import CA_VARIABLE
from conch.gateway import keys
from conch.gateway.limits import Limits
from conch.wire.errors import ConfigError, ServerError


def test_a_stop_while_it_starts_ends_it() -> None:
    """As Ctrl-C does: it interrupts the wait for the port, and leaves the block."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"grpc://127.0.0.1:{silent.getsockname()[1]}"
        service = lone_gateway(servers=(url,))
        before = {*threading.enumerate()}
        starting = threading.Thread(target=service.__enter__)
        starting.start()
        line, _ = silent.accept()  # the gateway looks whether the server is ready
        with line:
            service.close()
        starting.join(20)
    left = {thread.name for thread in {*threading.enumerate()} - before}
    assert not {"gateway", starting.name} & left


def test_connections_are_kept_alive_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted: list[socket.socket] = []
    accept = socket.socket.accept

    def kept(self: socket.socket) -> tuple[socket.socket, Any]:
        result = accept(self)
        accepted.append(result[0].dup())
        return result

    monkeypatch.setattr(socket.socket, "accept", kept)
    with lone_gateway(wyoming=("127.0.0.1", 0)) as service:
        for protocol, request in (
            ("", b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("wyoming", b'{"type": "ping"}\n'),
        ):
            with socket.create_connection(address_of(service, protocol), timeout=20) as client:
                client.sendall(request)
                assert client.recv(1)
            with accepted.pop() as own:
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20


def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    with lone_gateway() as first:
        _, port = address_of(first)
        with pytest.raises(ServerError, match=f"{port}.*--gateway HOST:PORT"):
            lone_gateway(port=port).__enter__()


def test_every_address_of_an_ipv6_host_has_brackets() -> None:
    with lone_gateway(host="::1", wyoming=("::1", 0), riva=("::1", 0)) as service:
        urls = [service.url, *service.other_urls.values()]
        assert [url.rpartition(":")[0] for url in urls] == [
            *("http://[::1]", "tcp://[::1]", "grpc://[::1]")
        ]
        for url in urls:
            socket.create_connection(("::1", int(url.rpartition(":")[2])), 10).close()


def test_a_server_of_another_protocol_is_refused() -> None:
    with pytest.raises(ServerError, match=r"'http://host:8000' is no grpc:// URL"):
        lone_gateway(servers=("http://host:8000",))


def test_a_certificate_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    paths = (tmp_path / "cert.pem", None), (tmp_path / "none.pem", None), (None, tmp_path)
    for cert, key in paths:
        with pytest.raises(ConfigError, match="certificate"):
            lone_gateway(tls_cert=cert, tls_key=key)


def test_the_commands_of_keys_work_on_the_file_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "keys.json")
    for order in (["--keys", file, "keys", "add", "anna"], ["keys", "add", "shop", "--keys", file]):
        assert main(["gateway", *order]) == 0
    secrets = capsys.readouterr().out.split()
    assert [keys.KeyRing(Path(file)).find(secret).name for secret in secrets] == ["anna", "shop"]
    assert main(["gateway", "keys", "list", "--keys", file]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["anna", "shop"]
    assert main(["gateway", "keys", "remove", "anna", "--keys", file]) == 0
    assert [key.name for key in keys.read_keys(Path(file))] == ["shop"]
    assert main(["gateway", "keys", "remove", "anna", "--keys", file]) == 1
    assert "no key 'anna'; it has: shop" in capsys.readouterr().err


def test_a_damaged_file_of_keys_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text('{"keys": [{"name": "anna"}]}')
    with pytest.raises(ConfigError, match="damaged"):
        lone_gateway(keys_file=file)
    keys.write_keys(file, [keys.Key("anna", "0" * 64, Limits())])
    lone_gateway(keys_file=file)


def test_a_private_authority_is_trusted_where_a_client_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "server.pem")
    )
    with lone_gateway(tls_cert=tmp_path / "server.pem") as service:
        with Client(service.url) as client, pytest.raises(ServerError, match="CERTIFICATE_VERIFY"):
            client.is_ready()
        with Client(service.url, ca_cert=str(tmp_path / "ca.pem")) as client:
            assert not client.is_ready(), "it answers, and has no server"
        monkeypatch.setenv(CA_VARIABLE, str(tmp_path / "ca.pem"))
        with Client(service.url) as client:
            assert not client.is_ready()
        with pytest.raises(ServerError, match=r"cannot be read from .*none.pem: .*--ca-cert and"):
            Client(service.url, ca_cert=str(tmp_path / "none.pem"))
