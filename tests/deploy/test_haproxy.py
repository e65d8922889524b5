"""The configuration for HAProxy: what it says, who may be named in it, and the example."""

import itertools
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import trustme

from conch.cli import main
from conch.deploy.haproxy import MARK, BackendServer, Router, duplicates, haproxy_config

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "deploy" / "haproxy.cfg"
CERTIFICATE = "speech.pem"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["deploy", "haproxy", *arguments]) == 0
    return capsys.readouterr().out


def section(text: str, head: str) -> list[str]:
    lines = text.splitlines()
    body = lines[lines.index(head) + 1 :]
    return [line.strip() for line in itertools.takewhile(lambda line: line[:1] in " ", body)]


def test_the_example_is_what_the_command_in_it_writes(capsys, monkeypatch) -> None:
    text = EXAMPLE.read_text()
    command = shlex.split(text.splitlines()[1].removeprefix("#"))
    monkeypatch.setattr("sys.argv", command)
    assert command[:3] == ["conch", "deploy", "haproxy"]
    assert len([word for word in command if word == "--server"]) == 3
    assert printed(capsys, *command[3:]) == text


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("gpu-1", BackendServer("gpu-1")),
        ("10.0.0.5", BackendServer("10.0.0.5")),
        ("[fd00::1]", BackendServer("fd00::1")),
        ("a:http=1,grpc=2,gateway=3", BackendServer("a", 1, 2, 3)),
        ("[fd00::1]:http=1,grpc=2,gateway=3", BackendServer("fd00::1", 1, 2, 3)),
    ],
)
def test_a_server_has_a_host_and_ports(text: str, server: BackendServer) -> None:
    assert BackendServer.parse(text) == server


def test_ports_that_are_not_named_are_those_of_conch_serve() -> None:
    assert BackendServer.parse("a: grpc=7") == BackendServer("a", 8000, 7, 9000)
    assert BackendServer.parse("[::1]:http=80").addresses["http_address"] == "[::1]:80"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no host"),
        (":http=1", "no host"),
        ("a b", "'a b' is no host"),
        ("a\nbind :1", r"is no host"),
        ("http://a", "does not say which port"),
        ("a:9000", "'9000' does not say which port it is"),
        ("a:", "'' does not say"),
        ("a:gprc=1", "'gprc=1' does not say"),
        ("a:http=1,http=2", "http is given twice"),
        ("a:http=0", "http=0: a port is a number from 1 to 65535"),
        ("a:http=65536", "http=65536: a port"),
        ("a:http=-1", "http=-1: a port"),
        ("a:http=x", "http=x: a port"),
        ("a:http=", "http=: a port"),
        ("a:http=9000", "http and gateway have the same port, 9000"),
        ("[::1", "in brackets"),
        ("[::1]9000", "in brackets"),
        ("::1", "in brackets"),
    ],
)
def test_a_wrong_server_is_an_error_that_says_what_was_sent(text, problem, refused) -> None:
    with pytest.raises(ValueError, match=problem):
        BackendServer.parse(text)
    said = refused("deploy", "haproxy", f"--server={text}")
    assert "argument --server: HOST or HOST:http=PORT,grpc=PORT,gateway=PORT: " in said
    assert f"; got {text!r}" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--server is missing"),
        (["--server", "a", "--server", "a"], "--server: a:8000, a:8001, a:9000 is given more than"),
        (["--server", "a", "--server", "a:http=1,grpc=2"], "--server: a:9000 is given more"),
        (["--server", "a", "--host", "0.0.0.0"], "add --trust-network"),
        (["--server", "a", "--gateway", "9"], None),
        (
            ["--server", "a", "--gateway", "a:x"],
            "argument --gateway: HOST:PORT, with a port from 1 to 65535",
        ),
        (["--server", "a", "--http-port", "0"], "argument --http-port: a whole number from 1 to"),
        (["--server", "a", "--stats-port", "8001"], "--grpc-port and --stats-port are both 8001"),
        (["--server", "a", "--max-body-mb", "0"], "argument --max-body-mb: a number of megabytes"),
        (["--server", "a", "--tls-cert", "none.pem"], "argument --tls-cert: no such file: 'none"),
        (["--server", "a", "--user", "a b"], "argument --user: without spaces"),
        (["--server", "a", "--out", "none/x"], "argument --out: not a file in a folder that"),
    ],
)
def test_wrong_usage_names_the_option(arguments, problem, capsys, refused) -> None:
    if problem is None:
        assert "bind 127.0.0.1:9\n" in printed(capsys, *arguments)
    else:
        assert problem in refused("deploy", "haproxy", *arguments)


def test_no_other_file_is_overwritten(tmp_path, capsys) -> None:
    own, other = tmp_path / "haproxy.cfg", tmp_path / "other.cfg"
    other.write_text("global\n")
    assert main(["deploy", "haproxy", "--server", "a", "--out", str(own)]) == 0
    assert main(["deploy", "haproxy", "--server", "b", "--out", str(own)]) == 0
    assert "server b b:9000" in own.read_text()
    assert main(["deploy", "haproxy", "--server", "a", "--out", str(other)]) == 1
    assert f"--out {other}: this file was not made by" in capsys.readouterr().err
    assert other.read_text() == "global\n"
    assert sorted(tmp_path.iterdir()) == [own, other]


def test_every_server_is_in_every_backend_by_a_name_of_its_own() -> None:
    servers = [BackendServer("a"), BackendServer("a", 1, 2, 3), BackendServer("fd00::1")]
    assert duplicates(servers) == []
    text = haproxy_config(servers, Router(), "")
    protocols = {"servers": "gateway", "gateway": "gateway"} | {
        f"{protocol}_{kind}": protocol
        for protocol in ("http", "grpc")
        for kind in ("live", "recordings")
    }
    for backend, protocol in protocols.items():
        lines = [line for line in section(text, f"backend {backend}") if line.startswith("server ")]
        assert [line.split()[1:3] for line in lines] == [
            [server.name, server.addresses[f"{protocol}_address"]] for server in servers
        ]
        pairs = zip(servers, lines, strict=True)
        tracked = [f"track servers/{server.name}" in line for server, line in pairs]
        assert all(tracked) == (backend != "servers")
    assert len({server.name for server in servers}) == 3
    assert len({server.id for server in servers}) == 3
    # A table that one process hands to the next knows servers by their names.
    more = haproxy_config([*servers, BackendServer("b")], Router(), "")
    for line in section(text, "backend grpc_live"):
        assert line in section(more, "backend grpc_live")


def test_a_chunk_is_pinned_by_its_header_and_never_sent_twice() -> None:
    text = haproxy_config([BackendServer("a")], Router(), "")
    for backend in ("http_live", "grpc_live"):
        lines = section(text, f"backend {backend}")
        assert "balance hdr(conch-stream)" in lines
        assert "stick on req.hdr(conch-stream)" in lines
        assert "option persist" in lines
    assert "retry-on conn-failure" in section(text, "defaults")
    assert text.count("retry-on") == 1


def test_what_begins_during_a_reload_is_placed_by_the_next_process() -> None:
    router = Router(host="0.0.0.0", tls_cert="/speech.pem")
    text = haproxy_config([BackendServer("a")], router, "")
    for kind, port, protocol in (("http", 8000, "http/1.1"), ("grpc", 8001, "h2")):
        lines = section(text, f"frontend triton_{kind}")
        chosen = [line.split()[1] for line in lines if line.startswith("use_backend")]
        assert chosen == [f"{kind}_next", f"{kind}_live"]
        next_one = f"server next 127.0.0.1:{port} ssl verify none alpn {protocol}"
        assert next_one in section(text, f"backend {kind}_next")
        assert f"bind 0.0.0.0:{port} ssl crt /speech.pem alpn {protocol}" in lines


def test_tls_is_for_others_alone() -> None:
    text = haproxy_config([BackendServer("a")], Router(tls_cert="/speech.pem"), "")
    bound = [line.strip() for line in text.splitlines() if line.startswith("    bind")]
    assert [line for line in bound if "ssl" in line] == [
        "bind 127.0.0.1:9000 ssl crt /speech.pem alpn http/1.1"
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "arguments",
    [
        ["--server", "10.0.0.1", "--server", "127.0.0.1:http=1,grpc=2,gateway=3"],
        ["--server", "[fd00::1]", "--gateway", "[::]:443", "--host", "::1", "--user", ""],
        ["--server", "10.0.0.1", "--host", "0.0.0.0", "--trust-network", "--tls-cert", CERTIFICATE],
    ],
)
def test_haproxy_takes_it_without_a_warning(arguments, tmp_path, capsys, monkeypatch) -> None:
    if not shutil.which("haproxy"):
        pytest.skip("haproxy is missing: apt-get install haproxy")
    monkeypatch.chdir(tmp_path)
    issued = trustme.CA().issue_cert("speech.example.org")
    issued.private_key_and_cert_chain_pem.write_to_path(CERTIFICATE)
    path = tmp_path / "haproxy.cfg"
    socket = ["--admin-socket", str(tmp_path / "admin.sock")]
    path.write_text(printed(capsys, *arguments, *socket))
    done = subprocess.run(["haproxy", "-c", "-f", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert path.read_text().startswith(MARK)
