"""Every program in the guide runs as it stands there, against a real server."""

import re
from pathlib import Path
from typing import Any

import pytest
import soundfile
from conch_command import called
from subprocesses import output_of

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
TALK = ROOT / "tests" / "data" / "kokoro_1_00881.ogg"
# Without the word that British and American English spell differently.
SPOKEN = "cannot do this job alone"

PAGES = {
    "README.md": ["python", "python"],
    "docs/guide/quickstart.md": ["python"],
    "docs/guide/transcribe.md": ["python", "python"],
    "docs/guide/live.md": ["python"],
    "docs/guide/protocol.md": ["python", "sh", "sh", "sh"],
    "docs/guide/python-api.md": ["python"],
}
"""The languages of a page's programs, in order: none is forgotten."""


def programs(page: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page that name a language, each with it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recordings that the programs read."""
    folder = tmp_path_factory.mktemp("docs")
    samples, rate = soundfile.read(TALK, dtype="float32")
    for name in ("talk.wav", "talk.mp3", "lecture.mp3"):
        soundfile.write(folder / name, samples, rate)
    return folder


def run_python(program: list[str]) -> int:
    exec(program[0], {"__name__": "__main__"})
    return 0


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_run(
    page: str, folder: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = programs(page)
    assert [language for language, _ in found] == PAGES[page]
    for language, program in found:
        here = program.replace("127.0.0.1:8000", server.http_url)
        here = here.replace("127.0.0.1:8001", server.grpc_url)
        if language == "sh":
            # Four samples are no speech.
            assert '"TRANSCRIPTS"' in output_of("sh", "-euc", here)
        else:
            done = called(here, main=run_python)
            assert done.returncode == 0, done.stderr
            assert SPOKEN in done.stdout.lower(), f"{program}\n{done.stdout}"
