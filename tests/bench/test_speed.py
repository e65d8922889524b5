import random

import numpy as np
import pytest

from conch.bench.figures import PERCENTILES, Latency, latency_ms, rtfx


def test_percentiles_by_hand() -> None:
    # 1 to 101 ms: the p-th percentile is p + 1, without interpolation.
    latencies = [count / 1000 for count in range(1, 102)]
    random.Random(7).shuffle(latencies)
    result = latency_ms(latencies)
    assert result.percentiles == pytest.approx((51, 91, 96, 100))
    assert (result.mean, result.max) == pytest.approx((51, 101))


def test_percentiles_interpolate_between_neighbours() -> None:
    assert latency_ms([0.010, 0.020]).p50 == pytest.approx(15)
    assert latency_ms([0.010, 0.020]).p90 == pytest.approx(19)
    assert latency_ms([0.5]).p99 == pytest.approx(500)


def test_percentiles_against_numpy() -> None:
    latencies = np.random.default_rng(3).exponential(0.2, size=997)
    result = latency_ms(list(latencies))
    expected = np.percentile(latencies, PERCENTILES) * 1000
    assert result.percentiles == pytest.approx(tuple(expected), abs=1e-3)


def test_no_latency_no_figure() -> None:
    assert latency_ms([]) == Latency()


def test_rtfx() -> None:
    assert rtfx(audio_s=60, wall_s=4) == 15
    assert rtfx(audio_s=0, wall_s=4) is None
