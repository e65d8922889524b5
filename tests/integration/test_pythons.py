"""Conch on the Pythons that are found here: the client that applications install, and all of it."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pythons import interpreter
from subprocesses import output_of

from conch.launcher import TritonServer

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(1200)]

CLIENTS = [
    (python, numpy)
    for python in ("3.10", "3.11", "3.12", "3.13")
    for numpy in ("1.26", "2")
    if (python, numpy) != ("3.13", "1.26")  # which there is no wheel of
]
TESTS = (
    *("tests/client", "tests/cli"),
    *("--ignore=tests/cli/test_graph.py", "--ignore=tests/cli/test_serve.py"),
    *("--ignore=tests/cli/test_logs.py", "--ignore=tests/cli/test_heal_metrics.py"),
    "--ignore=tests/cli/test_models.py",
    "--deselect=tests/cli/test_cli.py::test_a_command_names_the_extra_that_it_lacks",
    "--deselect=tests/cli/test_cli.py::test_the_pinned_wheel_is_known",
    *("tests/wire/test_options.py", "tests/wire/test_result.py", "tests/wire/test_formats.py"),
    *("tests/bench/test_load.py", "tests/scoring/test_manifest.py"),
)
"""Of what the client and its commands import, but not of what they do with a server installed."""


def run(*command: object, **changes: str) -> str:
    return output_of(*command, timeout_s=1200, cwd=ROOT, env={**os.environ, **changes})


@dataclass(frozen=True)
class Environment:
    folder: Path

    def run(self, program: str, *arguments: object) -> str:
        return run(self.folder / "bin" / program, *arguments)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    python = interpreter("3.11") or interpreter("3.12")
    folder = tmp_path_factory.mktemp("wheel")
    environment = Environment(folder / "venv")
    run(python, "-m", "venv", environment.folder)
    environment.run("python", "-m", "pip", "wheel", "-qq", "--no-deps", "-w", folder, ROOT)
    (found,) = folder.glob("conch-*.whl")
    return found


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda pair: f"{pair[0]}-numpy{pair[1]}")
def client(request, wheel: Path, tmp_path_factory) -> Iterator[Environment]:
    """An environment with the wheel, without an extra."""
    version, numpy = request.param
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    environment = Environment(tmp_path_factory.mktemp("client") / "venv")
    run(python, "-m", "venv", environment.folder)
    install = (
        "-m",
        "pip",
        "install",
        "-qq",
        wheel,
        f"numpy=={numpy}.*",
        "anyio",
        "pytest",
        "pytest-timeout",
    )
    environment.run("python", *install)
    yield environment


def test_it_brings_nothing_that_only_the_server_needs(client: Environment):
    listed = client.run("python", "-m", "pip", "list", "--format=json")
    names = {item["name"].lower() for item in json.loads(listed)}
    assert "conch" in names
    assert not names & {"torch", "scipy", "onnxruntime", "ctranslate2", "nvidia-pytriton", "av"}


def test_its_unit_tests_pass(client: Environment):
    said = client.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert int(re.search(r"(\d+) passed", said)[1]) > 400


def test_its_commands_explain_themselves(client: Environment):
    assert "usage: conch transcribe" in client.run("conch", "transcribe", "--help")
    assert client.run("conch", "--version").startswith("conch ")


def test_it_transcribes_on_a_running_server(client: Environment, server: TritonServer, speech_wav):
    for url in (server.http_url, f"grpc://{server.grpc_url}"):
        said = client.run("conch", "transcribe", speech_wav, "--url", url)
        assert "burning bright in the forest" in said.lower()
    live = client.run("conch", "stream", speech_wav, "--speed", 0, "--url", server.http_url)
    assert "burning bright" in live.lower()


@pytest.mark.parametrize(
    "benchmark", [("offline",), ("live", "--streams", 2, "--seconds", 5, "--warmup", 0)]
)
def test_it_measures_a_running_server(
    client: Environment, server: TritonServer, tmp_path, benchmark: tuple[object, ...]
):
    file = tmp_path / "report.json"
    manifest = ("--manifest", DATA / "manifest.tsv", "--limit", 2)
    client.run("conch", "bench", *benchmark, *manifest, "--url", server.http_url, "--json", file)
    report = json.loads(file.read_text())
    assert report["errors"] == 0
    assert report["audio_s"] > 5
    assert report["wer"] is None, "nothing compares texts here"


@pytest.mark.parametrize("command", [("transcribe", DATA / "kokoro_0_00788.ogg"), ("serve",)])
def test_a_command_that_needs_a_server_says_how_to_install_one(
    client: Environment, command: tuple[object, ...]
):
    with pytest.raises(AssertionError, match=r"\.\[server\]|needs Python 3\.11 or 3\.12"):
        client.run("conch", *command)


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_all_of_it_installs_and_transcribes(version: str, tmp_path):
    """As on a fresh machine: from the files of the checkout, by `make demo`."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    files = run("git", "ls-files").splitlines()
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "scripts" / "install").chmod(0o755)
    said = run("make", "-C", tmp_path, "demo", PYTHON=python)
    assert " ".join(said.lower().split()).count("fearful symmetry") >= 4
    assert run(tmp_path / ".venv" / "bin" / "python", "-V").startswith(f"Python {version}.")
