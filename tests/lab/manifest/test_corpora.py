from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.scoring.manifest import Utterance, read_manifest
from conch.wire.errors import BenchError
from lab.manifest.corpora import read_corpus
from lab.manifest.writing import write_manifest

RATE = 8_000


def audio(path: Path, seconds: float = 1.0) -> Path:
    """Write a ramp, so that each sample tells its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ramp = np.arange(round(seconds * RATE)) / (60 * RATE)
    soundfile.write(path, ramp, RATE, subtype="PCM_16")
    return path


def text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def found(folder: Path) -> list[tuple[Path, str, str, str]]:
    corpus = read_corpus(folder, folder / "cut")
    return [(item.path, item.text, item.split, item.source) for item in corpus.utterances]


@pytest.mark.parametrize("of", ["LibriSpeech", "LibriSpeech/dev-clean", "LibriSpeech/dev-clean/84"])
def test_librispeech(tmp_path: Path, of: str) -> None:
    chapter = tmp_path / "LibriSpeech" / "dev-clean" / "84" / "121123"
    first = audio(chapter / "84-121123-0000.flac")
    # Often converted.
    second = audio(chapter / "84-121123-0001.wav")
    text(chapter / "84-121123.trans.txt", "84-121123-0000 GO DO YOU HEAR", "84-121123-0001 BUT NO")
    assert found(tmp_path / of) == [
        (first, "GO DO YOU HEAR", "dev-clean", "librispeech"),
        (second, "BUT NO", "dev-clean", "librispeech"),
    ]


def test_common_voice(tmp_path: Path) -> None:
    clips = [audio(tmp_path / "clips" / f"cv_{number}.wav") for number in range(3)]
    header = "client_id\tpath\tsentence\tup_votes"
    text(tmp_path / "test.tsv", header, 'x\tcv_0.wav\t"Quoted," he said.\t2')
    text(tmp_path / "dev.tsv", header, "x\tcv_1.wav\tRare line\u2028separator.\t2")
    text(tmp_path / "validated.tsv", header, "x\tcv_2.wav\tYes.\t2", "x\tcv_0.wav\tNo.\t2")
    assert found(tmp_path) == [
        (clips[1], "Rare line separator.", "dev", "common_voice"),
        (clips[0], '"Quoted," he said.', "test", "common_voice"),
    ]
    for name in ("test.tsv", "dev.tsv"):
        (tmp_path / name).unlink()
    assert found(tmp_path) == [
        (clips[2], "Yes.", "validated", "common_voice"),
        (clips[0], "No.", "validated", "common_voice"),
    ]


def test_common_voice_without_its_columns(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    text(tmp_path / "test.tsv", "file\ttext", "a.wav\tNo.")
    with pytest.raises(BenchError, match=r"no columns path and sentence; found: file, text"):
        found(tmp_path)


@pytest.mark.parametrize("of", ["", "data_aishell"])
def test_aishell(tmp_path: Path, of: str) -> None:
    root = tmp_path / "data_aishell"
    wave = audio(root / "wav" / "dev" / "S0724" / "BAC009S0724W0121.wav")
    text(
        root / "transcript" / "aishell_transcript_v0.8.txt",
        "BAC009S0724W0121 广州市 房地产",
        "BAC009S0724W0122 没有",
    )
    corpus = read_corpus(tmp_path / of, tmp_path / "cut")
    assert corpus.layout == "AISHELL"
    assert corpus.utterances == (Utterance(wave, "广州市 房地产", "dev", "aishell"),)
    assert [path.name for path in corpus.missing] == ["BAC009S0724W0122.wav"]


def test_kaldi(tmp_path: Path) -> None:
    data = tmp_path / "dev"
    beside, far = audio(data / "audio" / "a.wav"), audio(tmp_path / "far b.wav")
    text(data / "wav.scp", "utt-a audio/a.wav", f"utt-b {far}", "utt-c none.wav")
    text(data / "text", "utt-b good night", "utt-a good day")
    assert found(data) == [
        (beside, "good day", "dev", "kaldi"),
        (far, "good night", "dev", "kaldi"),
    ]


def test_kaldi_segments_are_cut(tmp_path: Path) -> None:
    audio(tmp_path / "call.wav", 10)
    text(tmp_path / "wav.scp", "call call.wav")
    text(tmp_path / "segments", "call-1 call 1.5 2.5", "a/b call 4 4.25", "nobody call 0 1")
    text(tmp_path / "text", "call-1 yes", "a/b no")
    (first, *_), (second, *_) = found(tmp_path)
    assert (first.name, second.name) == ("call-1.flac", "a%2Fb.flac")
    for path, start_s, end_s in ((first, 1.5, 2.5), (second, 4, 4.25)):
        waveform, rate = soundfile.read(path)
        assert (rate, len(waveform)) == (RATE, (end_s - start_s) * RATE)
        assert waveform[0] * 60 == pytest.approx(start_s, abs=0.002)
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == [second.name, first.name]


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ("call-1 call 1.5", r"call-1 takes a recording, a start and an end .* found: call 1\.5"),
        ("call-1 call one 2", r"found: call one 2"),
        ("call-1 other 1 2", r"call-1 is of other, not in wav\.scp"),
        ("call-1 call 20 21", r"call-1, 20 to 21 s, holds no samples: .*call\.wav lasts 10 s"),
        ("call-2 call 1 2", r"text names no utterance of wav\.scp or segments"),
    ],
)
def test_kaldi_segments_that_cannot_be_cut(tmp_path: Path, segment: str, message: str) -> None:
    audio(tmp_path / "call.wav", 10)
    text(tmp_path / "wav.scp", "call call.wav")
    text(tmp_path / "segments", segment)
    text(tmp_path / "text", "call-1 yes")
    with pytest.raises(BenchError, match=message):
        found(tmp_path)


def test_kaldi_commands_are_not_run(tmp_path: Path) -> None:
    text(tmp_path / "wav.scp", "ok a.wav", f"call touch {tmp_path / 'run'} |")
    text(tmp_path / "text", "call yes")
    with pytest.raises(
        BenchError, match=r"recording call is a command \(touch .*, which is not run"
    ):
        found(tmp_path)
    assert not (tmp_path / "run").exists()


def test_an_unknown_folder_is_refused_with_the_known_layouts(tmp_path: Path) -> None:
    with pytest.raises(
        BenchError, match=r"trans\.txt .*\(LibriSpeech\).* clips .*wav\.scp and text"
    ):
        found(tmp_path)
    with pytest.raises(BenchError, match=r"none is not a folder"):
        found(tmp_path / "none")


def test_texts_without_any_audio(tmp_path: Path) -> None:
    text(tmp_path / "1-2.trans.txt", "1-2-0 YES", "1-2-1 NO")
    with pytest.raises(BenchError, match=r"none of 2 audio files, such as .*1-2-0\.flac"):
        found(tmp_path)


def test_a_corpus_is_read_back_from_its_manifest(tmp_path: Path) -> None:
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    elsewhere.mkdir()
    audio(corpus / "a b.wav", 1.5)
    text(corpus / "wav.scp", "utt a b.wav")
    text(corpus / "text", 'utt he said:\t"yes"')
    utterances = read_corpus(corpus, elsewhere).utterances
    file = elsewhere / "m.tsv"
    write_manifest(file, utterances)
    header, line = file.read_text().splitlines()
    assert header.split("\t") == ["path", "duration", "split", "source", "text"]
    assert line.split("\t") == ["../corpus/a b.wav", "1.50", "corpus", "kaldi", 'he said: "yes"']
    (read,) = read_manifest(file)
    assert read.path.resolve() == (corpus / "a b.wav").resolve()
    assert (read.text, read.split, read.source) == ('he said: "yes"', "corpus", "kaldi")
