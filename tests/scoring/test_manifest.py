from pathlib import Path

import pytest

from conch.scoring.manifest import ManifestEntry, read_manifest, select
from conch.wire.errors import BenchError


def write(folder: Path, text: str) -> Path:
    file = folder / "manifest.tsv"
    file.write_text(text, encoding="utf-8")
    return file


def utterances(count: int, source: str = "", split: str = "") -> list[ManifestEntry]:
    return [
        ManifestEntry(Path(f"{source}{index}.wav"), "", split, source) for index in range(count)
    ]


def test_a_line_may_tell_its_language(tmp_path: Path) -> None:
    file = write(tmp_path, "path\tlanguage\ttext\na.ogg\tzh\t今天\nb.ogg\t\there\n")
    assert [item.language for item in read_manifest(file)] == ["zh", ""]


def test_columns_in_any_order_and_others_left_alone(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "path\tduration\tsplit\tsource\tspeaker\ttext\n"
        "dev/a.ogg\t2.23\tdev\tcommon_voice\tcv\tOnly the present.\n"
        "\n"
        'dev/b.ogg\t3.22\tdev\tcommon_voice\tcv\t"He lives here," his friend said.\n',
    )
    assert read_manifest(file) == [
        ManifestEntry(tmp_path / "dev/a.ogg", "Only the present.", "dev", "common_voice"),
        # Quotes are part of the text.
        ManifestEntry(
            tmp_path / "dev/b.ogg", '"He lives here," his friend said.', "dev", "common_voice"
        ),
    ]


def test_path_and_text_are_enough_and_an_absolute_path_stays(tmp_path: Path) -> None:
    file = write(tmp_path, "path\ttext\n/data/a.wav\t\n")
    assert read_manifest(file) == [ManifestEntry(Path("/data/a.wav"), "")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"no column path and text; .* found: nothing"),
        ("path\tduration\na.wav\t1\n", r"no column text; .* found: path, duration"),
        ("path,text\na.wav,hello\n", r"no column path and text; .* found: path,text"),
        ("path\ttext\na.wav\thello\n\thello\n", r"line 3: no path"),
        ("path\ttext\na.wav\n", r"line 2: the column text is missing"),
    ],
)
def test_a_bad_manifest_is_an_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(BenchError, match=message):
        read_manifest(write(tmp_path, content))


def test_a_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"none\.tsv cannot be read"):
        read_manifest(tmp_path / "none.tsv")


def test_select_by_split_and_source() -> None:
    both = utterances(2, "read", "dev") + utterances(2, "talk", "dev") + utterances(1, "read", "x")
    assert select(both, split="dev", source="read") == both[:2]
    assert select(both) == both


def test_a_limit_spreads_evenly_and_repeats_itself() -> None:
    ten = utterances(10)
    assert select(ten, limit=5) == [ten[1], ten[3], ten[5], ten[7], ten[9]]
    assert select(ten, limit=3) == [ten[1], ten[5], ten[8]]
    assert select(ten, limit=1) == [ten[5]]
    assert select(ten, limit=10) == select(ten, limit=99) == ten


def test_a_limit_keeps_the_shares_of_the_sources() -> None:
    mixed = utterances(80, "read") + utterances(20, "talk")
    chosen = [utterance.source for utterance in select(mixed, limit=10)]
    assert (chosen.count("read"), chosen.count("talk")) == (8, 2)


def test_nothing_left_names_what_there_is() -> None:
    with pytest.raises(BenchError, match=r"split test and source any; the splits are dev"):
        select(utterances(2, "read", "dev"), split="test")
    with pytest.raises(BenchError, match="holds no utterances"):
        select([])
