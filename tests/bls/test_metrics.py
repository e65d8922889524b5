"""What the models count, and that the docs know it."""

import re
from pathlib import Path

import pytest

from conch.bls import metrics
from conch.bls.metrics import ANSWER_SECONDS, REJECTED, REQUESTS, Metric, Metrics
from conch.recognition import metrics as recognition_metrics
from conch.recognition.metrics import CHUNKS, ENDPOINTS
from conch.synthesis import service as synthesis
from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
)

DOCS = Path(__file__).parents[2] / "docs" / "guide" / "operating.md"
ALL = [
    item
    for module in (metrics, recognition_metrics, synthesis)
    for item in vars(module).values()
    if isinstance(item, Metric)
]


def test_sums_are_kept_until_they_are_drained():
    counted = Metrics()
    counted.add(ENDPOINTS, rule="silence")
    counted.add(ENDPOINTS, rule="silence")
    counted.add(ENDPOINTS, 3, rule="length")
    assert counted.drain() == {(ENDPOINTS, ("silence",)): 2, (ENDPOINTS, ("length",)): 3}
    assert not counted.drain()


def test_an_answer_is_counted_and_timed_by_how_it_ends():
    counted = Metrics()
    with counted.answering(CHUNKS, "none") as labels:
        labels["mode"] = "two_pass"
    with pytest.raises(OptionError), counted.answering(REQUESTS, "offline"):
        raise OptionError("bad")
    found = counted.drain()
    assert found[CHUNKS, ("two_pass", "ok")] == found[REQUESTS, ("offline", "invalid")] == 1
    assert 0 < found[ANSWER_SECONDS, ("two_pass",)] < 10
    assert found[REJECTED, ("INVALID_OPTION",)] == 1


@pytest.mark.parametrize("error", [OverloadedError(), ComponentError(), ValueError()])
def test_what_the_client_did_right_is_not_counted_as_rejected(error):
    counted = Metrics()
    with pytest.raises(type(error)), counted.answering(CHUNKS, "none"):
        raise error
    assert REJECTED not in {family for family, _ in counted.drain()}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DeadlineError(), "deadline"),
        (RequestCancelledError(), "cancelled"),
        (OverloadedError(), "overloaded"),
        (ComponentError(), "component"),
        (GeneratorExit(), "cancelled"),
        (ValueError(), "internal"),
    ],
)
def test_outcomes(error, outcome):
    assert metrics.outcome(error) == outcome


def test_the_docs_list_every_metric_with_its_labels():
    rows = re.findall(r"^\| `(conch_\w+)` \| (\w+) \|([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    documented = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    }
    assert documented == {item.name: (item.kind, item.labels) for item in ALL}
