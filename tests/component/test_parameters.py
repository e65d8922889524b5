import json
import math
import re
from dataclasses import dataclass

import pytest

from conch.component.parameters import cores_of_container, read_parameters, share_of_cores
from conch.wire.entry_points import CODE, CODE_VARIABLE
from conch.wire.errors import ConfigError


@dataclass(frozen=True)
class Config:
    beam: int = 5
    weight: float = 0.5
    fast: bool = False
    path: str = ""
    device: str = "cpu"
    instances: int = 1


def args(kind: str = "KIND_CPU", count: int = 1, **parameters: str) -> dict[str, str]:
    block = {key: {"string_value": value} for key, value in parameters.items()}
    groups = [{"kind": kind, "count": count}]
    return {
        "model_config": json.dumps({"parameters": block, "instance_group": groups}),
        "model_instance_kind": kind,
        "model_instance_device_id": "0",
    }


def test_absent_parameters_keep_their_defaults():
    assert read_parameters(Config, args()) == Config()


def test_values_are_converted_to_the_types_of_their_fields():
    config = read_parameters(Config, args(beam="8", weight="1", fast="true", path="/models/tiny"))
    assert config == Config(beam=8, weight=1.0, fast=True, path="/models/tiny")


def test_the_device_follows_the_instance_group_unless_set():
    assert read_parameters(Config, args("KIND_GPU")).device == "cuda"
    assert read_parameters(Config, args("KIND_GPU", device="cpu")).device == "cpu"


def test_instances_are_those_of_the_instance_group_unless_set():
    assert read_parameters(Config, args(count=3)).instances == 3
    assert read_parameters(Config, args(count=3, instances="2")).instances == 2
    assert read_parameters(Config, {"model_config": "{}"}).instances == 1


def test_keys_of_tritons_own_are_left_alone():
    assert read_parameters(Config, args(EXECUTION_ENV_PATH="env.tar.gz")) == Config()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beams": "5"}, "parameter 'beams' is not known to Config; it has beam, weight"),
        ({"beam": "five"}, "parameter 'beam' takes int; it is 'five'"),
        ({"fast": "yes"}, "parameter 'fast' takes bool; it is 'yes'"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, message):
    with pytest.raises(ConfigError) as error:
        read_parameters(Config, args(**parameters))
    assert str(error.value).startswith(message)


def test_instances_share_the_cores(monkeypatch, tmp_path):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)))
    monkeypatch.setattr("conch.component.parameters.CGROUP", tmp_path)
    assert [share_of_cores(instances) for instances in (1, 2, 4, 9)] == [6, 3, 1, 1]
    (tmp_path / "cpu.max").write_text("350000 100000\n")
    assert [share_of_cores(instances) for instances in (1, 2, 4, 9)] == [4, 2, 1, 1]
    (tmp_path / "cpu.max").write_text("6400000 100000\n")
    assert share_of_cores(1) == 6


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ({}, math.inf),
        ({"cpu.max": ""}, math.inf),
    ],
)
def test_the_limit_of_a_container(files, cores, tmp_path):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cores_of_container(tmp_path) == cores


def test_code_that_has_not_started_the_server_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(CODE_VARIABLE, str(CODE))
    assert read_parameters(Config, args()) == Config()
    monkeypatch.setenv(CODE_VARIABLE, str(tmp_path))
    with pytest.raises(
        ConfigError, match=f"but this model imports conch from {re.escape(str(CODE))}: "
    ):
        read_parameters(Config, args())
