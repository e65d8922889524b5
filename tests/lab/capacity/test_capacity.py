"""The arithmetic of capacity, and the configs that it speaks of."""

import math
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from lab.capacity import capacity
from lab.training.ctc.model import CtcModel, CtcModelConfig

ROOT = Path(__file__).parents[3]


def test_operations_are_two_for_each_weight_and_those_of_attention():
    """Weights of the model itself; each is used once a frame, the first convolution's twice."""
    model = CtcModel(CtcModelConfig(vocab_size=29, model_size=512, num_heads=8, num_layers=6))
    weights = sum(item.numel() for item in model.parameters() if item.ndim > 1)
    weights += model.conv1.weight.numel()
    assert capacity.CTC.frame_flop(0) == 2 * weights
    # Each of 6 layers has 512 products for a score and 512 for a weighted sum, of each key.
    assert capacity.CTC.frame_flop(100) - capacity.CTC.frame_flop(0) == 2 * 6 * 2 * 512 * 100


def test_limits_by_hand():
    stages = (
        capacity.Stage("one", 10.0, 10.0),
        capacity.Stage("threads", 5.0, 5.0, math.inf),
        capacity.Stage("four", 100.0, 20.0, 4),
    )
    work = capacity.Work("some", 2.0, stages, flop=1e9)
    # 70 % of 1000 ms, 10 ms each; four processes of 20 ms each would do 140.
    assert work.rate_of_server() == (pytest.approx(70.0), "one")
    # 13 cores at 70 %, 115 ms each, or 35 beside a GPU: what four servers can do and three cannot.
    assert work.rate_of_cores_alone() == pytest.approx(13 * 700 / 115)
    assert work.servers() == 4
    assert work.rate(4) == pytest.approx(13 * 700 / 35)
    assert work.rate(3) == pytest.approx(3 * 70)
    heavy = capacity.Work("large", 2.0, stages, flop=5e12)
    assert heavy.rate(1) == pytest.approx(0.06 * 989 / 5)


@pytest.mark.parametrize("arrivals", [0.3, 1.6, 5.0])
def test_a_mean_batch_is_that_of_a_simulated_queue(arrivals):
    """Each batch takes 1 s; requests arrive at random, `arrivals` of them a second."""
    times = np.cumsum(np.random.default_rng(0).exponential(1 / arrivals, 20_000))
    free, taken, batches = 0.0, 0, 0
    while taken < len(times):
        begins = max(free, times[taken])
        taken = int(np.searchsorted(times, begins, side="right"))
        free, batches = begins + 1.0, batches + 1
    assert capacity.mean_batch(arrivals) == pytest.approx(len(times) / batches, rel=0.02)


def test_a_batch_is_what_arrives_at_the_rate_that_the_cores_allow():
    search = capacity.Stage("decoder", 200.0, 28.0, instances=2, rows=32)
    assert search.limit == pytest.approx(2 * 32 * 700 / 28)
    assert search.host_ms(1e-9) == pytest.approx(28.0), "alone"
    assert search.host_ms(1e9) == pytest.approx(28 / 32), "full"
    work = capacity.Work("some", 7.0, (capacity.Stage("one", 10.0, 10.0), search), flop=1e9)
    rate = work.rate_of_cores(3)
    # So many arrive at each of six processes in 28 ms; a search is shared by them.
    host_ms = 10 + 28 / capacity.mean_batch(rate / 6 * 0.028)
    assert rate * host_ms == pytest.approx(13 * 0.7 * 1000)
    assert work.rate_of_cores(6) < rate, "more servers have smaller batches"


def test_instances_and_batches_are_those_of_the_overlays():
    for work in capacity.works():
        for stage in work.stages:
            if math.isinf(stage.instances):
                continue
            repository = "bls_models" if stage.process == "speech" else "component_models"
            folder = ROOT / repository / stage.process
            overlay = folder / "configs" / "gpu.pbtxt"
            path = overlay if overlay.is_file() else folder / "config.pbtxt"
            config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
            assert sum(group.count for group in config.instance_group) == stage.instances
            assert stage.rows in (1, config.max_batch_size)
