"""Names of known voices by the threshold."""

import numpy as np

from lab.speakers.known import THRESHOLDS, shares


def test_a_query_is_right_wrong_unknown_or_a_named_stranger():
    cosines = np.array([[0.7, 0.1], [0.5, 0.6], [0.2, 0.45], [0.55, 0.3]])
    found = shares("clean", 3.0, ["x", "x", "y", "stranger"], ["x", "y"], cosines)
    by_threshold = {
        item.threshold: (item.right, item.wrong, item.unknown, item.strangers_named)
        for item in found
    }
    assert [*by_threshold] == list(THRESHOLDS)
    assert by_threshold[0.4] == (0.6667, 0.3333, 0.0, 1.0)
    assert by_threshold[0.5] == (0.3333, 0.3333, 0.3333, 1.0)
    assert by_threshold[0.62] == (0.3333, 0.0, 0.6667, 0.0)
    assert all(item.queries == 4 for item in found)
