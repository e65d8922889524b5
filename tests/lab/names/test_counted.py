import pytest

from lab.names.counted import NameCounts, counts, total

LISTED = {"verloc", "winnie", "poyser"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Verloc went home.", NameCounts(1, 1, 3, 0, 0)),
        # Two words in place of the name are one error, and not one of the rest.
        ("Mr. for lock went home.", NameCounts(1, 0, 3, 0, 0)),
        ("Mr. Verloc went home again.", NameCounts(1, 1, 3, 1, 0)),
        ("Mr. Verloc Poyser home.", NameCounts(1, 1, 3, 1, 1)),
        ("Mr. Winnie went home.", NameCounts(1, 0, 3, 0, 1)),
        ("", NameCounts(1, 0, 3, 3, 0)),
    ],
)
def test_names_and_the_rest_are_counted_apart(text: str, expected: NameCounts) -> None:
    assert counts("MISTER VERLOC WENT HOME", text, LISTED) == expected


def test_of_silence_only_invented_names_count() -> None:
    assert counts("", "Verloc!", LISTED) == NameCounts(invented=1)


def test_rates_are_of_all_utterances_and_none_without_words() -> None:
    both = total([NameCounts(1, 1, 3, 0, 0), NameCounts(3, 0, 1, 1, 2)])
    assert both == NameCounts(4, 1, 4, 1, 2)
    assert (both.recall, both.other_wer) == (0.25, 0.25)
    assert total([]) == NameCounts(0, 0, 0, 0, 0)
    assert NameCounts().recall is None
    assert NameCounts().other_wer is None
