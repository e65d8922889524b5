"""`conch agree`, with a client in place of the servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from refusals import Refused
from two_recognisers import TwoRecognisers, recording
from waiting import wait_until

from conch.bulk import sending
from conch.cli import main
from conch.cli.agree import recogniser
from conch.scoring.manifest import read_manifest
from conch.wire.result import Transcript

COMMAND = ("--a", "attention", "--b", "wfst", "--url", "127.0.0.1:9")


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TwoRecognisers]]:
    monkeypatch.setattr(sending, "AsyncClient", TwoRecognisers)
    TwoRecognisers.asked, TwoRecognisers.most_in_flight = [], 0
    yield TwoRecognisers


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    folder = tmp_path / "speech"
    folder.mkdir()
    recording(folder / "same.wav", "Twenty-one cats.", "21 cats")
    recording(folder / "near.wav", "The cat sat on the mat.", "the cat sat on the hat")
    recording(folder / "far.wav", "Something else.", "some thing wrong")
    recording(folder / "mute.wav", "", "the")
    recording(folder / "broken.wav", "broken", "broken")
    return folder


def lines(path: Path) -> list[dict[str, str]]:
    header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_what_agrees_is_a_manifest_and_the_rest_has_its_reasons(
    speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, rest = tmp_path / "labelled.tsv", tmp_path / "rest.tsv"
    command = ["agree", str(speech), *COMMAND, "--out", str(out), "--rejected", str(rest)]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert f"conch: {speech}/broken.wav: a: AUDIO is no audio\n" in told
    assert "conch: 2 of 4 files kept, 0.07 of 0.13 min" in told
    assert "1 files failed" in told

    assert [(item.path, item.text, item.language) for item in read_manifest(out)] == [
        (speech / "near.wav", "The cat sat on the mat.", "en"),
        (speech / "same.wav", "Twenty-one cats.", "en"),
    ]
    near = lines(out)[0]
    assert (near["path"], near["duration"], near["cer"]) == ("speech/near.wav", "2.00", "0.0588")
    assert near["text_b"] == "the cat sat on the hat"
    assert {row["path"]: row["reason"] for row in lines(rest)} == {
        "speech/broken.wav": "a: AUDIO is no audio",
        "speech/far.wav": "other texts",
        "speech/mute.wav": "no text by a",
    }
    assert "text" not in lines(rest)[0]


def test_another_threshold_and_text_need_no_recogniser(speech: Path, tmp_path: Path) -> None:
    (speech / "broken.wav").unlink()
    out = tmp_path / "labelled.tsv"
    command = ["agree", str(speech), *COMMAND, "--out", str(out)]
    assert main(command) == 0
    TwoRecognisers.asked = []
    assert main([*command, "--max-cer", "0", "--text", "b"]) == 0
    assert TwoRecognisers.asked == []
    assert [item.text for item in read_manifest(out)] == ["21 cats"]


def test_what_failed_is_tried_again_and_nothing_else(speech: Path, tmp_path: Path) -> None:
    command = ["agree", str(speech), *COMMAND, "--out", str(tmp_path / "labelled.tsv")]
    assert main(command) == 1
    TwoRecognisers.asked = []
    assert main(command) == 1
    assert TwoRecognisers.asked == [("attention", "broken")]


def test_columns_of_a_manifest_stay_and_choose(speech: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "in.tsv"
    rows = ["path\tsplit\tspeaker\tlanguage\ttext", "speech/same.wav\ttrain\tmo\t\told"]
    rows += ["speech/near.wav\ttrain\tjo\tde\told", "speech/far.wav\tdev\tjo\t\told"]
    manifest.write_text("\n".join(rows) + "\n")
    out = tmp_path / "labelled.tsv"
    command = ["agree", str(manifest), *COMMAND, "--out", str(out), "--split", "train"]
    assert main([*command, "--max-cer", "1"]) == 0
    assert [(row["split"], row["speaker"], row["language"], row["text"]) for row in lines(out)] == [
        ("train", "mo", "en", "Twenty-one cats."),
        ("train", "jo", "de", "The cat sat on the mat."),
    ]
    assert main([*command[:-1], "none"]) == 1


def test_references_give_the_accuracy_of_the_labels(
    speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (speech / "broken.wav").unlink()
    recording(speech / "zh.wav", "今天天气", "今天天气", seconds=4.0, language="zh")
    references = tmp_path / "references.tsv"
    rows = ["path\tlanguage\ttext", "speech/same.wav\t\t21 cats", "speech/zh.wav\tzh\t今天天色"]
    rows += ["speech/near.wav\t\tthe cat sat on a mat", "speech/far.wav\t\tsome thing wrong"]
    references.write_text("\n".join(rows) + "\n")
    command = ["agree", str(speech), *COMMAND, "--out", str(tmp_path / "labelled.tsv")]
    assert main([*command, "--references", str(references)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| max CER | kept | hours | hours % | WER % | without an error % |"
    # One of three is kept; then one of eight words is wrong, in one of two labels.
    assert "| 0 | 1 | 0.00 | 33.3 | 0.00 | 100.0 |" in table
    assert "| 0.1 | 2 | 0.00 | 66.7 | 12.50 | 50.0 |" in table
    assert "| all | 3 | 0.00 | 100.0 | 36.36 | 33.3 |" in table
    assert "| max CER | kept | hours | hours % | CER % | without an error % |" in table
    assert "| 0 | 1 | 0.00 | 100.0 | 25.00 | 0.0 |" in table
    assert table[-1].startswith("Error rates against the references: CER, Whisper's basic")


def test_segments_get_audio_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.wav"
    waveform = np.linspace(-0.5, 0.5, 4 * 16_000, dtype=np.float32)
    soundfile.write(path, waveform, 16_000)

    async def heard(self: TwoRecognisers, audio: bytes, **options: Any) -> Transcript:
        last = "bye" if options["decoder"] == "attention" else "by the way"
        data = {"name": "talk", "seconds": 4.0}
        spans = [[0.5, 1.25, "Hello."], [2.0, 3.5, last]]
        data |= {"attention": spans, "wfst": spans}
        return await TwoRecognisers.transcribe(self, json.dumps(data).encode(), **options)

    class OfAudio(TwoRecognisers):
        transcribe = heard

    monkeypatch.setattr(sending, "AsyncClient", OfAudio)
    out, cut = tmp_path / "labelled.tsv", tmp_path / "pieces"
    command = ["agree", str(path), *COMMAND, "--out", str(out), "--by", "segment"]
    assert main([*command, "--cut", str(cut)]) == 0
    (row,) = lines(out)
    assert (row["recording"], row["start"], row["end"]) == ("talk.wav", "0.50", "1.25")
    assert (row["duration"], row["text"]) == ("0.75", "Hello.")
    (item,) = read_manifest(out)
    samples, rate = soundfile.read(item.path, dtype="float32")
    assert (rate, item.path.parent) == (16_000, cut)
    np.testing.assert_allclose(samples, waveform[8_000:20_000], atol=1e-4)
    assert list(cut.iterdir()) == [item.path]


def test_an_option_that_a_server_refuses_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording(tmp_path / "one.wav", "hello", "refused")
    command = ["agree", str(tmp_path), *COMMAND, "--out", str(tmp_path / "labelled.tsv")]
    assert main(command) == 1
    assert "conch agree: --b: option 'language' takes en\n" in capsys.readouterr().err


def test_a_name_that_no_manifest_can_hold_is_an_error_of_that_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording(tmp_path / "a\tb.wav", "hello", "hello")
    recording(tmp_path / "c.wav", "hello", "hello")
    out = tmp_path / "labelled.tsv"
    rest = tmp_path / "rest.tsv"
    command = ["agree", str(tmp_path), *COMMAND, "--out", str(out), "--rejected", str(rest)]
    assert main(command) == 1
    assert [item.path.name for item in read_manifest(out)] == ["c.wav"]
    assert lines(rest)[0]["reason"].startswith("the file's name has a tab")
    assert "1 files failed" in capsys.readouterr().err


def test_as_many_files_are_in_flight_as_asked_for(tmp_path: Path) -> None:
    for number in range(30):
        recording(tmp_path / f"{number}.wav", "hello", "hello")
    command = ["agree", str(tmp_path), *COMMAND, "--out", str(tmp_path / "labelled.tsv")]
    assert main([*command, "--jobs", "3"]) == 0
    assert len(TwoRecognisers.asked) == 60
    assert 1 < TwoRecognisers.most_in_flight <= 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--b", "attention"), "--a and --b are the same recogniser"),
        (
            ("--b", "graph"),
            "argument --b: option 'decoder' takes one of moonshine, attention, ",
        ),
        (("--b", "wfst,nbest=x"), "argument --b: option 'nbest' takes an integer"),
        (("--b", "wfst,channels=split"), "option 'channels' must be mix here"),
        (("--max-cer", "2"), "argument --max-cer: a fraction from 0 to 1; got '2'"),
        (("--by", "segment"), "--by segment and --cut DIR go together"),
        (("--cut", "pieces"), "--by segment and --cut DIR go together"),
        (
            ("--by", "segment", "--cut", "pieces", "--b", "wfst,vad_pad_ms=100"),
            "option 'vad_pad_ms' must be the same in --a and --b",
        ),
        (("--references", "none.tsv"), "--references none.tsv: no such file"),
        (("--rejected", "labelled.tsv"), "--out and --rejected need different files"),
        (("--rejected", "one.wav"), "would overwrite an input"),
        (("--url-b", "ftp://here"), "ftp://here"),
    ],
)
def test_mistakes_are_named_before_anything_is_read(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Refused,
) -> None:
    monkeypatch.chdir(tmp_path)
    recording(tmp_path / "one.wav", "hello", "hello")
    told = refused("agree", "one.wav", *COMMAND, "--out", "labelled.tsv", *arguments)
    assert message in " ".join(told.split())
    assert [path.name for path in tmp_path.iterdir()] == ["one.wav"]


def test_pieces_do_not_become_inputs_of_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.chdir(tmp_path)
    recording(tmp_path / "one.wav", "hello", "hello")
    command = ["agree", ".", *COMMAND, "--out", "labelled.tsv", "--by", "segment"]
    said = refused(*command, "--cut", "pieces")
    assert "--cut pieces is inside the input ., which" in " ".join(said.split())
    assert [path.name for path in tmp_path.iterdir()] == ["one.wav"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("wfst", {"decoder": "wfst"}),
        (" nbest=2 , wfst,", {"decoder": "wfst", "nbest": 2}),
        ("hotwords=uncas, poyser:8,nbest=2", {"hotwords": "uncas, poyser:8", "nbest": 2}),
        ("replace=well, sir=>Sir; um=>,ctc", {"replace": "well, sir=>Sir; um=>", "decoder": "ctc"}),
    ],
)
def test_a_recogniser_is_a_decoder_and_options(text: str, options: dict[str, Any]) -> None:
    assert recogniser(text) == options


PROGRAM = """
import sys
from two_recognisers import TwoRecognisers
from conch.bulk import sending
from conch.cli import main
sending.AsyncClient = TwoRecognisers
status = main(sys.argv[1:])
print(sorted({name for _, name in TwoRecognisers.asked}))
sys.exit(status)
"""


def started(*arguments: object) -> "subprocess.Popen[str]":
    support = Path(__file__).parents[1] / "support"
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(support)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_run_continues_with_the_rest(how: signal.Signals, tmp_path: Path) -> None:
    speech = tmp_path / "speech"
    speech.mkdir()
    for number in range(5):
        recording(speech / f"{number}.wav", "hello", "hello")
    last = recording(speech / "9.wav", "hello", "never")
    out = tmp_path / "labelled.tsv"
    journal = out.with_name("labelled.tsv.journal")
    command = ("agree", speech, *COMMAND, "--out", out, "--jobs", 2)

    process = started(*command)
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == 6)
    process.send_signal(how)
    _, message = process.communicate(timeout=60)
    if how == signal.SIGTERM:
        assert process.returncode == 130
        assert "conch: stopped; run the same command again to continue" in message
    assert not out.exists(), "half of the labels look like all of them"

    recording(last, "hello", "hello")
    process = started(*command)
    said, message = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "['9']\n")
    assert "conch: 5 of 6 files were done before" in message
    assert len(read_manifest(out)) == 6
