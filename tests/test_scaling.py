"""docs/scaling.md: its tables, the arithmetic behind them, and the configs that it speaks of."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.acoustic.ctc_model import CtcModel, CtcModelConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def capacity():
    spec = importlib.util.spec_from_file_location("capacity", ROOT / "scripts" / "capacity.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["capacity"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_code(capacity):
    text = capacity.DOCUMENT.read_text()
    assert all(f"<!-- {name} -->" in text for name in capacity.TABLES)
    assert capacity.with_tables(text) == text, "run scripts/capacity.py"


def test_operations_are_two_for_each_weight_and_those_of_attention(capacity):
    """Weights of the model itself; each is used once a frame, the first convolution's twice."""
    model = CtcModel(CtcModelConfig(vocab_size=29))
    weights = sum(item.numel() for item in model.parameters() if item.ndim > 1)
    weights += model.conv1.weight.numel()
    assert capacity.CTC.frame_flop(0) == 2 * weights
    # Each of 4 layers has 384 products for a score and 384 for a weighted sum, of each key.
    assert capacity.CTC.frame_flop(100) - capacity.CTC.frame_flop(0) == 2 * 4 * 2 * 384 * 100


def test_limits_by_hand(capacity):
    stages = (
        capacity.Stage("one", 10.0, 10.0),
        capacity.Stage("threads", 5.0, 5.0, math.inf),
        capacity.Stage("four", 100.0, 20.0, 4),
    )
    work = capacity.Work("some", 2.0, stages, flop=1e9)
    # 70 % of 1000 ms, 10 ms each; four processes of 20 ms each would do 140.
    assert work.rate_of_server() == (pytest.approx(70.0), "one")
    assert work.host_ms(has_gpu=False) == 115.0
    # 13 cores at 70 %, 35 ms each.
    assert work.rate() == pytest.approx(13 * 700 / 35)
    assert work.servers() == 4
    heavy = capacity.Work("large", 2.0, stages, flop=5e12)
    assert heavy.rate() == pytest.approx(0.06 * 989 / 5)


def test_instances_are_those_of_the_overlays(capacity):
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
