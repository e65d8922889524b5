"""The journal: nothing is lost, and nothing is mixed."""

import re
from pathlib import Path

import pytest

from conch.agree.inputs import Clip
from conch.agree.journal import Entry, Journal, stamp_of
from conch.agree.stretches import Stretch
from conch.bulk.inputs import Source
from conch.wire.errors import AgreeError

ASKED = {"a": {"decoder": "attention"}, "b": {"decoder": "wfst", "nbest": 2}}
STRETCH = Stretch(
    start=0.0, end=2.0, text_a="a b", text_b="a c", language="en", characters=2, errors=1
)


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    path = tmp_path / "one.wav"
    path.write_bytes(b"audio")
    return Clip(Source(str(path), str(path)))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "labelled.tsv"


def entry(clip: Clip, error: str = "") -> Entry:
    if error:
        return Entry(clip.source.path, stamp_of(clip.path), error=error)
    return Entry(clip.source.path, stamp_of(clip.path), (STRETCH,))


def test_an_entry_is_there_after_the_run(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        assert journal.found(clip) is None
        journal.append(entry(clip))
    with Journal(out, ASKED) as journal:
        assert journal.found(clip) == entry(clip)


def test_a_line_that_a_killed_run_left_unfinished_is_cut_off(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole.splitlines()[-1][:40])
    with Journal(out, ASKED) as journal:
        assert journal.found(clip) == entry(clip)
        journal.append(entry(clip))
    assert journal.path.read_bytes() == whole + whole.splitlines(keepends=True)[-1]


def test_even_the_first_line_may_be_unfinished(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        pass
    journal.path.write_bytes(journal.path.read_bytes()[:10])
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip))
    with Journal(out, ASKED) as journal:
        assert journal.found(clip) == entry(clip)


def test_what_failed_or_has_changed_is_to_be_done_again(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip, error="gone"))
        assert journal.found(clip) is None
        assert journal.entry(clip).error == "gone"
        journal.append(entry(clip))
        assert journal.found(clip) == entry(clip)
        clip.path.write_bytes(b"other audio")
        assert journal.found(clip) is None


def test_other_options_are_refused_until_overwrite(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip))
    other = {**ASKED, "b": {"decoder": "ctc"}}
    wanted = 'b decoder="wfst",nbest=2 has heard; asked: decoder="ctc": use another --out'
    with pytest.raises(AgreeError, match=re.escape(wanted)), Journal(out, other):
        pass
    out.write_text("old labels")
    with Journal(out, other, overwrite=True) as journal:
        assert journal.found(clip) is None
        assert not out.exists()


def test_a_run_that_heard_nothing_does_not_bind_the_next_one(clip: Clip, out: Path) -> None:
    with Journal(out, {**ASKED, "b": {"language": "zz"}}):
        pass
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip))
    with Journal(out, ASKED) as journal:
        assert journal.found(clip) == entry(clip)


def test_a_damaged_line_is_named(clip: Clip, out: Path) -> None:
    with Journal(out, ASKED) as journal:
        journal.append(entry(clip))
    journal.path.write_text(journal.path.read_text() + "{}\n")
    with pytest.raises(AgreeError, match="line 3 is damaged; --overwrite"), Journal(out, ASKED):
        pass


def test_two_runs_do_not_share_a_journal(out: Path) -> None:
    with (
        Journal(out, ASKED),
        pytest.raises(AgreeError, match="another run writes there"),
        Journal(out, ASKED),
    ):
        pass


def test_a_file_of_someone_else_is_not_overwritten(out: Path) -> None:
    out.write_text("mine")
    wanted = re.escape("is there, and labelled.tsv.journal is not")
    with pytest.raises(AgreeError, match=wanted), Journal(out, ASKED):
        pass
    assert out.read_text() == "mine"
