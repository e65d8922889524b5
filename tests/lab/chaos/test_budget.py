"""The memory that the documents name is what the settings come to."""

import re
from pathlib import Path

import pytest

from conch.gateway import GatewayConfig
from conch.recognition.config import RecognitionConfig
from lab.chaos.budget import worst_case_mb

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "operating.md"


def test_the_guide_names_the_worst_case_of_the_defaults() -> None:
    found = worst_case_mb(RecognitionConfig(), GatewayConfig())
    text = GUIDE.read_text(encoding="utf-8").partition("## Memory\n")[2].partition("## Load\n")[0]
    rows = [float(figure) for figure in re.findall(r"^\| .+ \| ([\d.]+) \| .*\|$", text, re.M)]
    assert rows == [round(mb / 1000, 1) for mb in (*found.values(), sum(found.values()))]


@pytest.mark.parametrize(
    ("speech", "gateway", "less_mb"),
    [
        ({"max_bytes_in_flight": 1_147_483_648}, {}, 3_000),
        ({"max_audio_in_flight_s": 14_400.0}, {}, 2_640),
        ({"max_streams": 12}, {}, 3_000),
        ({}, {"max_body_mb": 100.0}, 200),
        ({}, {"max_sessions": 0, "max_files": 0}, 1_475 + 256),
        ({}, {"servers": ("grpc://a:1", "grpc://b:1")}, -400),
    ],
)
def test_each_limit_has_its_part(speech, gateway, less_mb) -> None:
    default = sum(worst_case_mb(RecognitionConfig(), GatewayConfig()).values())
    other = worst_case_mb(RecognitionConfig(**speech), GatewayConfig(**gateway))
    assert default - sum(other.values()) == pytest.approx(less_mb, abs=1)
