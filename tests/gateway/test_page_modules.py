"""The page's modules that need no browser, by node's test runner and against the server's rules."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from programs import required

from conch.wire.formats import to_srt, to_text, to_webvtt
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Channel, Hypothesis, Segment, Transcript, Word

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "conch" / "gateway" / "page"
TESTS = sorted((Path(__file__).parent / "page").glob("*.test.mjs"))
TEXT = (
    "The legend that they were invincible — above and beyond the processes of a democracy — has "
    "been shattered. Really? He said “no.” Then, a <b>very</b> long-winded-compound-word-that-is-"
    "longer-than-a-line & some more words without any end that just go on --> and on"
)
OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"vad": False},
    *({"decoder": decoder} for decoder in ("attention", "ctc", "wfst")),
    *(
        {"decoder": decoder, "accuracy": accuracy}
        for decoder in ("attention", "ctc", "wfst")
        for accuracy in ("fast", "balanced", "best")
    ),
    {"rescore": True},
    {"rescore": True, "rescorer": "ngram"},
    {"accuracy": "best", "rescore": False},
    {"accuracy": "best", "ctc_rescore": False},
    {"ctc_rescore": True},
    {"decoder": "ctc", "attention_rescore": True},
    {"decoder": "wfst", "rescore": True, "attention_rescore": True},
)
LIVE_OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"vad": False},
    {"mode": "streaming"},
    {"mode": "two_pass"},
    {"endpointing": False},
    {"hotwords": "Conch"},
    {"hotwords": "Conch", "decoder": "attention"},
    {"lm_fusion": True},
    {"decoder": "ctc"},
    {"decoder": "wfst", "mode": "two_pass"},
    {"accuracy": "best"},
    {"accuracy": "best", "decoder": "wfst", "mode": "two_pass"},
    {"ctc_rescore": True},
    {"decoder": "ctc", "rescore": True},
    {"decoder": "ctc", "mode": "two_pass", "attention_rescore": True},
)


@pytest.fixture(scope="module")
def node() -> str:
    return required("node")


def run(node: str, script: str, given: Any) -> Any:
    """Return what a script prints as JSON. It imports modules of the page from PAGE."""
    command = [node, "--input-type=module", "--eval", script]
    data = json.dumps(given)
    done = subprocess.run(command, input=data, capture_output=True, text=True, cwd=PAGE, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def words(text: str, start: float = 0.3) -> tuple[Word, ...]:
    """Return a text's words, one each 0.37 s, with a pause after every ninth."""
    made = []
    for place, word in enumerate(text.split()):
        begin = start + 0.37 * place + 0.8 * (place // 9)
        made.append(Word(word, round(begin, 3), round(begin + 0.375, 3), 0.9))
    return tuple(made)


def transcript(*segments: Segment, channels: int = 0) -> Transcript:
    text = " ".join(segment.text for segment in segments)
    return Transcript(
        nbest=(Hypothesis(text, -1.0, -1.0),),
        segments=segments,
        duration=60.0,
        path=("vad",),
        stages={},
        channels=tuple(Channel(number + 1, "", -1.0) for number in range(channels)),
    )


def segment(text: str, *, start: float = 0.0, timed: bool = True, channel: int = 0) -> Segment:
    said = words(text, start) if timed else ()
    best = (Hypothesis(text, -1.0, -1.0),)
    return Segment(start, start + 30.25, best, said, channel=channel)


TRANSCRIPTS = {
    "with word times": transcript(segment(TEXT), segment(TEXT, start=31.5)),
    "without word times": transcript(segment(TEXT, timed=False)),
    "two channels": transcript(
        segment(TEXT, channel=1), segment("Yes, I see.", start=4.2, channel=2), channels=2
    ),
    "silence": transcript(),
}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_modules_under_node(node: str, path: Path) -> None:
    command = [node, "--test", "--test-reporter=tap", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    # A file that node takes for empty passes too.
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout


@pytest.mark.parametrize("kind", TRANSCRIPTS)
def test_a_download_is_what_conch_transcribe_writes(node: str, kind: str) -> None:
    script = """
        import { readFileSync } from "node:fs";
        const { toTxt, toSrt, toVtt } = await import(`${process.cwd()}/formats.js`);
        const said = JSON.parse(readFileSync(0, "utf-8"));
        console.log(JSON.stringify([toTxt(said), toSrt(said), toVtt(said)]));
    """
    said = TRANSCRIPTS[kind]
    made = run(node, script, json.loads(said.to_json()))
    assert made == [to_text(said), to_srt(said), to_webvtt(said)]


def test_a_planned_path_is_that_of_the_server(node: str) -> None:
    script = """
        import { readFileSync } from "node:fs";
        const { planned } = await import(`${process.cwd()}/path_model.js`);
        const sent = JSON.parse(readFileSync(0, "utf-8"));
        console.log(JSON.stringify(sent.map(([options, live]) => [...planned(options, live)])));
    """
    sent = [(one, False) for one in OPTIONS] + [(one, True) for one in LIVE_OPTIONS]
    for (options, live), names in zip(sent, run(node, script, sent), strict=True):
        parsed = RecognitionOptions.parse(options, live=live)
        assert set(names) == set(components_of(parsed)), (options, live)


def test_the_page_loads_nothing_from_elsewhere_and_writes_no_markup() -> None:
    files = [path for path in PAGE.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    assert {"index.html", "style.css", "favicon.svg", "main.js"} <= {path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text, path.name
        for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert markup not in text, path.name
