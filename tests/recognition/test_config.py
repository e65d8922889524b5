"""The limits of the orchestrator."""

from dataclasses import fields

import pytest

from conch.recognition.config import RecognitionConfig
from conch.wire.errors import ConfigError

LIMITS = {item.name: item.type for item in fields(RecognitionConfig) if item.type in (int, float)}


def test_there_are_limits_of_both_kinds():
    assert set(LIMITS.values()) == {int, float}
    assert len(LIMITS) == 18


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), float("-inf")])
def test_every_limit_refuses_what_is_none(name, value):
    with pytest.raises(ConfigError) as refused:
        RecognitionConfig(**{name: value})
    said = str(refused.value)
    assert said.startswith(f"parameter {name} takes ")
    assert said.endswith(f"; is: {value}")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_requests_in_flight", 0, "takes an integer of 1 or more; is: 0"),
        ("max_calls_in_flight", 3, "takes an integer of 4 or more; is: 3"),
        ("max_audio_s", -2.5, "takes a finite number above 0; is: -2.5"),
        ("stream_step_ms", 100, "takes a multiple of 32 above 0, whole frames of the VAD; is: 100"),
    ],
)
def test_the_error_names_the_range(name, value, message):
    with pytest.raises(ConfigError) as refused:
        RecognitionConfig(**{name: value})
    assert str(refused.value) == f"parameter {name} {message}"


@pytest.mark.parametrize(
    "limits",
    [
        dict.fromkeys((name for name, kind in LIMITS.items() if kind is float), 0.001),
        {name: 1 for name, kind in LIMITS.items() if kind is int}
        | {"max_calls_in_flight": 4, "stream_step_ms": 32},
    ],
)
def test_the_least_of_each_is_a_limit(limits):
    config = RecognitionConfig(**limits)
    assert {name: getattr(config, name) for name in limits} == limits
