"""Folders, globs, manifests and tables become recordings; what is broken is named."""

import base64
import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from conch.bulk.inputs import Source, left_out_text, read_audio, size_of, sources_of
from conch.wire.errors import AudioError, BenchError, BulkError

pytestmark = pytest.mark.skipif(not find_spec("fsspec"), reason="fsspec is missing: extra bulk")


def file(path: Path) -> Source:
    return Source(str(path), str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for name in ("b.wav", "a.MP3", "deep/c.ogg", "notes.txt", ".hidden.wav"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_a_folder_gives_its_audio_in_order(folder: Path) -> None:
    expected = [file(folder / name) for name in ("a.MP3", "b.wav", "deep/c.ogg")]
    assert sources_of([str(folder)]) == expected


def test_a_folder_gives_every_name_of_audio_and_counts_the_others(folder: Path) -> None:
    names = ["x.3ga", "x.aifc", "x.bwf", "x.mpga", "x.QTA", "x.rf64", "x.wave", "x.weba"]
    for name in (*names, "deep/more.txt", "list.pdf", "README", "mp3"):
        (folder / name).touch()
    left_out = Counter[str]()
    taken = {Path(source.id).name for source in sources_of([str(folder)], left_out=left_out)}
    assert taken == {*names, "a.MP3", "b.wav", "c.ogg"}
    assert left_out == {".txt": 2, ".pdf": 1, "without a suffix": 2}
    message = left_out_text(left_out)
    assert message.startswith("5 files of folders are left out, as no audio by name: 2 ")
    assert "2 .txt" in message and "2 without a suffix" in message and message.endswith(", 1 .pdf")
    for name in taken:
        next(folder.rglob(name)).unlink()
    with pytest.raises(BulkError, match=rf"no audio in it; {message}"):
        sources_of([str(folder)])


def test_a_glob_gives_what_it_matches_and_nothing_twice(folder: Path) -> None:
    result = sources_of([f"{folder}/*.wav", f"{folder}/**/c.*", f"{folder}/b.wav"])
    assert result == [file(folder / "b.wav"), file(folder / "deep/c.ogg")]


def test_a_file_may_have_any_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (result,) = sources_of(["notes.txt"])
    assert result == file(folder / "notes.txt")
    assert read_audio(result) == b"notes.txt"
    assert size_of(result) == 9


def test_a_manifest_counts_paths_from_its_folder(folder: Path) -> None:
    (folder / "list.tsv").write_text("path\ttext\nb.wav\thello\n\ndeep/c.ogg\t\n/x/y.wav\t\n")
    expected = [file(folder / "b.wav"), file(folder / "deep/c.ogg"), file(Path("/x/y.wav"))]
    assert sources_of([f"{folder}/list.tsv"]) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "file\nb.wav\n", r"no column path"),
        ("x.tsv", "path\ttext\nb.wav\thi\n \thi\n", r"line 3: no path"),
        ("x.jsonl", '{"path": "b.wav"}\nnonsense\n', r"line 2: not JSON"),
        ("x.jsonl", '{"path": "b.wav"}\n[1]\n', r"line 2: a row is a JSON object; found: list"),
        ("x.jsonl", '{"text": "hi"}\n', r"line 1: neither path nor bytes"),
        ("x.jsonl", '{"id": [], "path": "b.wav"}\n', r"line 1: id takes text"),
    ],
)
def test_a_broken_row_is_named(folder: Path, name: str, content: str, message: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises((BulkError, BenchError), match=message):
        sources_of([str(folder / name)])


def test_a_table_of_json_has_paths_or_bytes(folder: Path) -> None:
    rows = [
        {"path": "b.wav"},
        {"id": "second", "path": "deep/c.ogg"},
        {"id": "third", "bytes": base64.b64encode(b"sound").decode()},
        {"audio": {"bytes": base64.b64encode(b"other").decode(), "path": None}},
        {"bytes": "no base64!"},
    ]
    table = folder / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second, third, fourth, fifth = sources_of([str(table)])
    assert first == file(folder / "b.wav")
    assert second == Source("second", str(folder / "deep/c.ogg"))
    assert (third.id, read_audio(third)) == ("third", b"sound")
    assert fourth.id.startswith(f"{table}#")
    assert read_audio(fourth) == b"other"
    with pytest.raises(AudioError, match="base64"):
        read_audio(fifth)


def test_parquet_has_paths_or_bytes(folder: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra bulk")
    parquet = pytest.importorskip("pyarrow.parquet")
    paths, sounds, both = (folder / f"{name}.parquet" for name in ("paths", "sounds", "both"))
    parquet.write_table(pa.table({"path": ["b.wav", "deep/c.ogg"]}), paths)
    audio = [{"bytes": bytes([65 + n]), "path": f"{n}.wav"} for n in range(5)]
    parquet.write_table(pa.table({"audio": audio}), sounds, row_group_size=2)
    parquet.write_table(pa.table({"id": ["x", "y"], "bytes": [b"1", b""]}), both)
    assert sources_of([str(paths)]) == [file(folder / "b.wav"), file(folder / "deep/c.ogg")]
    result = sources_of([str(sounds)])
    assert [read_audio(source) for source in result] == [b"A", b"B", b"C", b"D", b"E"]
    first, second = sources_of([str(both)])
    assert (first.id, read_audio(first)) == ("x", b"1")
    with pytest.raises(AudioError, match="0 bytes"):
        read_audio(second)
    (folder / "bad.parquet").write_bytes(b"nonsense")
    with pytest.raises(BulkError, match=r"cannot read .*bad\.parquet"):
        sources_of([str(folder / "bad.parquet")])


def test_a_missing_input_is_an_error_at_once(folder: Path) -> None:
    with pytest.raises(BulkError, match=r"nowhere\.wav: no such file"):
        sources_of([f"{folder}/nowhere.wav"])
    with pytest.raises(BulkError, match=r"\*\.flac: no audio in it"):
        sources_of([f"{folder}/*.flac"])
    with pytest.raises(BulkError, match="nothing://x"):
        sources_of(["nothing://x/y.wav"])
    with pytest.raises(AudioError, match="no such file"):
        read_audio(file(folder / "nowhere.wav"))


def test_two_recordings_do_not_share_an_id(folder: Path) -> None:
    (folder / "x.jsonl").write_text('{"id": 1, "path": "a.MP3"}\n{"id": 1, "path": "b.wav"}\n')
    with pytest.raises(BulkError, match="the id '1' is that of two recordings"):
        sources_of([f"{folder}/x.jsonl"])
