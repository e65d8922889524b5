"""`conch agree` on a real server."""

from pathlib import Path
from typing import Any

import pytest
import soundfile
from recordings import Recording, in_turn

from conch.cli import main
from conch.scoring.error_rates import word_error_rate
from conch.scoring.manifest import read_manifest

pytestmark = pytest.mark.server

OTHER_OPTIONS = ("--max-cer", "0.3", "--a", "attention", "--b", "wfst")


def test_labels_are_what_was_said_and_a_second_run_needs_no_server(
    server: Any, recordings: list[Recording], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = tmp_path / "references.tsv"
    chosen = recordings[:3]
    rows = [f"{recording.path}\t{recording.text}" for recording in chosen]
    references.write_text("\n".join(["path\ttext", *rows]) + "\n")
    (tmp_path / "broken.wav").write_bytes(b"no audio")
    out = tmp_path / "labelled.tsv"
    files = (str(references), str(tmp_path / "broken.wav"))
    command = ["agree", *files, *OTHER_OPTIONS, "--out", str(out), "--references", str(references)]
    assert main([*command, "--url", f"grpc://{server.grpc_url}"]) == 1
    told = capsys.readouterr()
    assert "broken.wav: a: AUDIO " in told.err
    labels = read_manifest(out)
    said = {recording.path: recording.text for recording in chosen}
    assert labels
    wer = word_error_rate([said[item.path] for item in labels], [item.text for item in labels])
    assert wer is not None
    assert wer < 0.15
    assert f"| 0.3 | {len(labels)} |" in told.out

    before = out.read_bytes()
    out.unlink()
    assert main([*command[:1], *files[:1], *command[3:], "--url", "grpc://127.0.0.1:9"]) == 0
    assert out.read_bytes() == before


def test_both_recognisers_have_the_same_segments(
    server: Any, recordings: list[Recording], tmp_path: Path
) -> None:
    spoken_s = sum(len(recording.waveform()) for recording in recordings[:2]) / 16_000
    talk = tmp_path / "talk.flac"
    soundfile.write(talk, in_turn(recordings[:2], 2), 16_000)
    out = tmp_path / "labelled.tsv"
    command = ["agree", str(talk), *OTHER_OPTIONS, "--max-cer", "1", "--out", str(out)]
    command += ["--by", "segment", "--cut", str(tmp_path / "pieces")]
    assert main([*command, "--url", f"grpc://{server.grpc_url}"]) == 0
    labels = read_manifest(out)
    assert len(labels) >= 2
    found = " ".join(item.text for item in labels)
    wer = word_error_rate([" ".join(recording.text for recording in recordings[:2])], [found])
    assert wer is not None
    assert wer < 0.2
    cut_s = sum(soundfile.info(item.path).duration for item in labels)
    assert 0.8 * spoken_s < cut_s < spoken_s + 1.5, "the pauses of 2 s are left out"
