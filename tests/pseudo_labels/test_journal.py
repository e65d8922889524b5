"""The journal: nothing is lost, and nothing is mixed."""

import re
from pathlib import Path

import pytest

from conch.bulk.inputs import Source
from conch.pseudo_labels.compare import TextPair
from conch.pseudo_labels.journal import Entry, Journal, opened, stamp_of
from conch.wire.errors import BulkError

ASKED = {"a": {"decoder": "attention"}, "b": {"decoder": "wfst", "nbest": 2}}
STRETCH = TextPair(
    start=0.0, end=2.0, text_a="a b", text_b="a c", language="en", characters=2, errors=1
)


@pytest.fixture
def clip(tmp_path: Path) -> Source:
    path = tmp_path / "one.wav"
    path.write_bytes(b"audio")
    return Source(str(path), str(path))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "labelled.tsv"


def entry(clip: Source, error: str = "") -> Entry:
    if error:
        return Entry(clip.path, stamp_of(clip), error=error)
    return Entry(clip.path, stamp_of(clip), (STRETCH,))


def write(out: Path, clip: Source) -> Journal:
    """Return the closed journal of a run with one entry."""
    with opened(out, ASKED) as journal:
        journal.append(entry(clip))
    return journal


def test_an_entry_is_there_after_the_run(clip: Source, out: Path) -> None:
    with opened(out, ASKED) as journal:
        assert journal.valid_entry(clip) is None
        journal.append(entry(clip))
    with opened(out, ASKED) as journal:
        assert journal.valid_entry(clip) == entry(clip)


def test_a_line_that_a_killed_run_left_unfinished_is_cut_off(clip: Source, out: Path) -> None:
    journal = write(out, clip)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole.splitlines()[-1][:40])
    with opened(out, ASKED) as journal:
        assert journal.valid_entry(clip) == entry(clip)
        journal.append(entry(clip))
    assert journal.path.read_bytes() == whole + whole.splitlines(keepends=True)[-1]


def test_even_the_first_line_may_be_unfinished(clip: Source, out: Path) -> None:
    with opened(out, ASKED) as journal:
        pass
    journal.path.write_bytes(journal.path.read_bytes()[:10])
    write(out, clip)
    with opened(out, ASKED) as journal:
        assert journal.valid_entry(clip) == entry(clip)


def test_what_failed_or_has_changed_is_to_be_done_again(clip: Source, out: Path) -> None:
    with opened(out, ASKED) as journal:
        journal.append(entry(clip, error="gone"))
        assert journal.valid_entry(clip) is None
        assert journal.entry(clip).error == "gone"
        journal.append(entry(clip))
        assert journal.valid_entry(clip) == entry(clip)
        Path(clip.path).write_bytes(b"other audio")
        assert journal.valid_entry(clip) is None


def test_other_options_are_refused_until_overwrite(clip: Source, out: Path) -> None:
    write(out, clip)
    other = {**ASKED, "b": {"decoder": "ctc"}}
    wanted = 'b {"decoder": "wfst", "nbest": 2}; asked: {"decoder": "ctc"}: use another --out'
    with pytest.raises(BulkError, match=re.escape(wanted)), opened(out, other):
        pass
    out.write_text("old labels")
    with opened(out, other, overwrite=True) as journal:
        assert journal.valid_entry(clip) is None
        assert not out.exists()


def test_a_run_without_texts_does_not_bind_the_next_one(clip: Source, out: Path) -> None:
    with opened(out, {**ASKED, "b": {"language": "zz"}}):
        pass
    write(out, clip)
    with opened(out, ASKED) as journal:
        assert journal.valid_entry(clip) == entry(clip)


def test_a_damaged_line_is_named(clip: Source, out: Path) -> None:
    journal = write(out, clip)
    journal.path.write_text(journal.path.read_text() + "{}\n")
    with pytest.raises(BulkError, match="line 3 is damaged; --overwrite"), opened(out, ASKED):
        pass


def test_two_runs_do_not_share_a_journal(out: Path) -> None:
    with (
        opened(out, ASKED),
        pytest.raises(BulkError, match="another run writes there"),
        opened(out, ASKED),
    ):
        pass


def test_another_file_is_not_overwritten(out: Path) -> None:
    out.write_text("mine")
    wanted = re.escape("exists, but labelled.tsv.journal, which describes its run, does not")
    with pytest.raises(BulkError, match=wanted), opened(out, ASKED):
        pass
    assert out.read_text() == "mine"
