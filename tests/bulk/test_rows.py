import pytest

from conch.bulk.inputs import Source
from conch.bulk.rows import row_of
from conch.wire.parts import transcript_of
from conch.wire.result import Hypothesis, Segment


@pytest.mark.parametrize(
    ("found", "asked", "told"), [("de", "auto", "de"), ("", "auto", None), ("", "en", "en")]
)
def test_a_row_tells_the_language_that_was_found_or_asked_for(found, asked, told):
    segment = Segment(0.0, 1.0, (Hypothesis("Guten Tag", -1.0, -1.0),), language=found)
    transcript = transcript_of([segment], 1, duration=1.0, path=(), stages={})
    options = {"language": asked}
    source = Source("a.wav", "a.wav")
    row = row_of(source, transcript, options=options, models={}, pieces=1, seconds=0.5)
    assert row["language"] == told
