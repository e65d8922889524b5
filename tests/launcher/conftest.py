"""Model repositories that are real, tiny and written by the test."""

from collections.abc import Callable
from pathlib import Path

import pytest

CONFIG = """\
backend: "python"
max_batch_size: 0
input [{ name: "VALUES" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "SAME" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU }]
"""

IDENTITY = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        pb_utils.Logger.log_warn('identity says "hello"')

    def execute(self, requests):
        values = [pb_utils.get_input_tensor_by_name(r, "VALUES").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAME", v)]) for v in values]
"""


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """Write a model into a repository and return the repository."""

    def write(name: str, code: str, repository: str = "models", config: str = CONFIG) -> Path:
        version = tmp_path / repository / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(code)
        (version.parent / "config.pbtxt").write_text(config)
        return tmp_path / repository

    return write


@pytest.fixture
def identity_repository(write_model: Callable[..., Path]) -> Path:
    """Return a repository with one model, `identity`, that answers with its input."""
    return write_model("identity", IDENTITY)
