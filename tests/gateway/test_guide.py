"""docs/guide/gateway.md: its programs run, and its tables are complete by the code."""

import json
import re
import sys
from pathlib import Path

import pytest
import soundfile
from gateways import Gateway
from programs import required
from subprocesses import output_of

from conch.gateway.config import GatewayConfig
from conch.gateway.file_answer import CONTENT_TYPES
from conch.gateway.metrics import GatewayMetrics
from conch.gateway.models import PATHS
from conch.gateway.openapi import make_document

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guide" / "gateway.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S)
# Without the word that British and American English spell differently.
SPOKEN = "cannot do this job alone"


def rows(pattern: str) -> list[tuple[str, ...]]:
    return re.findall(pattern, TEXT, re.M)


def test_every_error_has_its_row() -> None:
    documented = {
        (int(status), code)
        for status, codes in rows(r"^\| (\d{3}) \| (.+?) \|")
        for code in re.findall(r"`(\w+)`", codes)
    }
    of_document = make_document()["components"]["responses"]["Error"]["description"]
    assert documented == {
        (int(status), code)
        for status, codes in re.findall(r"^\| (\d{3}) \| `\w+` \| (.+?) \|", of_document, re.M)
        for code in re.findall(r"`(\w+)`", codes)
    }


def test_every_metric_has_its_row() -> None:
    documented = {
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in rows(r"^\| `(conch_gateway_\w+)` \| (\w+) \| (.*?) ?\|")
    }
    metrics = [item for item in vars(GatewayMetrics()).values() if hasattr(item, "describe")]
    there = {
        (item._name + "_total" * (item._type == "counter"), item._type, item._labelnames)
        for item in metrics
    }
    assert documented == there
    assert len(there) > 5


def test_every_format_model_and_limit_is_told() -> None:
    for name in (*CONTENT_TYPES, *PATHS):
        assert f"`{name}`" in TEXT
    config = GatewayConfig()
    for flag, value in (
        ("max-body-mb", f"{config.max_body_mb:g} MB"),
        ("max-files", str(config.max_files)),
        ("max-sessions", str(config.max_sessions)),
    ):
        assert f"| {value} | `--{flag}` |" in TEXT
    assert f"`--drain-s` ({config.drain_s:g})" in TEXT


@pytest.mark.server
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_runs(number: int, gateway: Gateway, tmp_path: Path) -> None:
    language, program = PROGRAMS[number]
    samples, rate = soundfile.read(ROOT / "tests" / "data" / "kokoro_1_00881.ogg")
    soundfile.write(tmp_path / "talk.mp3", samples, rate)
    if language == "javascript":
        packages = Path(required("npm")).parent
        (tmp_path / "node_modules").symlink_to(packages)
        command = [required("node"), "--input-type=module", "--eval"]
    else:
        command = {"sh": ["sh", "-euc"], "python": [sys.executable, "-c"]}[language]
    here = program.replace("http://127.0.0.1:9000", gateway.url)
    said = output_of(*command, here, cwd=tmp_path)
    assert SPOKEN in said.lower()
    if language == "sh":
        assert json.loads(said)["usage"] == {"type": "duration", "seconds": 4}


def test_the_languages_of_the_programs_are_those_that_run() -> None:
    assert [language for language, _ in PROGRAMS] == ["sh", "python", "javascript", "python"]
