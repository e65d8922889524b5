"""The page's modules that need no browser, by node's test runner and against the server's rules."""

# ruff: noqa: RUF001

import json
import random
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


def drawn(rng: random.Random) -> Transcript:
    """Words of all lengths and times that are sometimes impossible, as alignments can be."""
    clock, segments = 0.0, []
    for _ in range(rng.randint(1, 5)):
        said = []
        for _ in range(rng.randint(0, 40)):
            text = rng.choice(
                ["x", "of", "the", "hello", "Mr.", "because", "w" * 21, "z" * 60, "好"]
            )
            text += rng.choice(["", "", "", ",", ".", "?”", "。"])
            length = rng.choice([0.0, 0.1, 0.2, 0.4, 0.7, 3.0, 12.0])
            said.append(Word(text, clock + rng.uniform(-0.2, 0.1), clock + length, 0.5))
            clock += length + rng.choice([0.0, 0.0, 0.0, 0.3, 0.8, 2.0])
        text = " ".join(word.text for word in said)
        begins = said[0].start if said else clock
        segments.append(
            Segment(
                begins, clock, (Hypothesis(text, -1, -1),), tuple(said), channel=rng.choice([1, 2])
            )
        )
    return transcript(*segments, channels=rng.choice([1, 2]))


TRANSCRIPTS = {
    "with word times": transcript(segment(TEXT), segment(TEXT, start=31.5)),
    "without word times": transcript(segment(TEXT, timed=False)),
    "two channels": transcript(
        segment(TEXT, channel=1), segment("Yes, I see.", start=4.2, channel=2), channels=2
    ),
    "silence": transcript(),
    "mixed scripts": transcript(
        segment(
            "我 用 Python 写 程 序 ， 你 好 。 今 日 は いい 天 気 です 。 안녕하세요. 반갑습니다"
        ),
        segment("สวัส ดี ครับ Fine, thanks! ｶﾅ “好” 😀 é", start=11.0),
        segment("我用 Python 写程序，你好。สวัสดี the end, it is", start=20.0, timed=False),
        segment("彼は「明日」と言った。ラーメン（笑）人々 เก็บน้ำแล้วๆ --->", start=60.0, timed=False),
    ),
    **{f"drawn {seed}": drawn(random.Random(seed)) for seed in range(30)},
}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_modules_under_node(node: str, path: Path) -> None:
    command = [node, "--test", "--test-reporter=tap", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    # A file that node takes for empty passes too.
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout


def test_a_download_is_what_conch_transcribe_writes(node: str) -> None:
    script = """
        import { readFileSync } from "node:fs";
        const { toTxt, toSrt, toVtt } = await import(`${process.cwd()}/formats.js`);
        const said = JSON.parse(readFileSync(0, "utf-8"));
        console.log(JSON.stringify(said.map((one) => [toTxt(one), toSrt(one), toVtt(one)])));
    """
    made = run(node, script, [json.loads(said.to_json()) for said in TRANSCRIPTS.values()])
    for (kind, said), written in zip(TRANSCRIPTS.items(), made, strict=True):
        assert written == [to_text(said), to_srt(said), to_webvtt(said)], kind


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
