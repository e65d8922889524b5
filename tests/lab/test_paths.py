"""Texts down several paths, next to those of another run."""

from lab.paths import differing


def test_a_text_that_is_otherwise_or_new_differs():
    assert differing({"a": "one", "b": "two"}, {"a": "one", "b": "two", "c": "three"}) == 0
    assert differing({"a": "one", "b": "two", "c": "three"}, {"a": "One", "b": "two"}) == 2
