"""Settings of a component's process: parameters of config.pbtxt, cores and niceness."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from conch.wire.entry_points import CODE, CODE_VARIABLE
from conch.wire.errors import ConfigError

Config = TypeVar("Config")

CGROUP = Path("/sys/fs/cgroup")
"""Folder of the container's control group."""

_BOOLS = {"true": True, "false": False}
_DEVICES = {"KIND_GPU": "cuda", "KIND_CPU": "cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    model: str = ""
    """Path of the weights; empty for the default ones."""
    device: str = "cpu"
    """cpu or cuda. The instance group sets it if config.pbtxt does not."""
    device_index: int = 0
    """Number of the GPU, with device cuda."""
    intra_threads: int = 0
    """CPU threads of one call; 0 for the instance's share of the cores."""
    instances: int = 1
    """Instances that share the cores. The instance group sets it if config.pbtxt does not."""

    @property
    def threads(self) -> int:
        return self.intra_threads or share_of_cores(self.instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class NiceConfig(DeviceConfig):
    nice: int = 10
    """Least niceness of the process, 0 to 19. Above 0, live streams get a busy CPU first, with the
    CTC models and the VAD."""


def read_parameters(config_class: type[Config], args: Mapping[str, str]) -> Config:
    """Return a model's configuration from the arguments of `initialize`.

    Keys in upper case belong to Triton and are ignored. Fields named `device`, `device_index` and
    `instances` follow the model's instance group unless a parameter sets them. `config_class` is a
    dataclass with a default for every field of type bool, int, float or str; another key or type is
    a `ConfigError`. So is code that is not that of the program which has started the server.
    """
    started_by = os.environ.get(CODE_VARIABLE)
    if started_by and Path(started_by) != CODE:
        raise ConfigError(
            f"conch serve runs from {started_by}, but this model imports conch from {CODE}: "
            "install the former where the server's Python finds it, as pip install -e does"
        )
    model = json.loads(args["model_config"])
    sent = model.get("parameters", {})
    parameters = {key: item["string_value"] for key, item in sent.items() if not key.isupper()}
    types = get_type_hints(config_class)
    names = [item.name for item in fields(config_class)]  # type: ignore[arg-type]
    placement = {
        "device": _DEVICES.get(args.get("model_instance_kind", ""), "cpu"),
        "device_index": args.get("model_instance_device_id", "0"),
        "instances": str(sum(group["count"] for group in model.get("instance_group", [])) or 1),
    }
    values: dict[str, Any] = {key: value for key, value in placement.items() if key in names}
    values |= parameters
    for key, value in values.items():
        if key not in names:
            known = f"{config_class.__name__}; it has {', '.join(names)}"
            raise ConfigError(f"parameter '{key}' is not known to {known}")
        values[key] = _converted(key, value, types[key])
    return config_class(**values)


def existing(path: Path, what: str) -> Path:
    """Return the path of a file that a parameter names; `what` names it in errors."""
    if not path.is_file():
        raise ConfigError(f"{what} {path} does not exist")
    return path


def share_of_cores(instances: int) -> int:
    """Return the number of cores of this process per instance, at least 1."""
    cores = min(len(os.sched_getaffinity(0)), cores_of_container(CGROUP))
    return max(1, math.ceil(cores) // instances)


def cores_of_container(cgroup: Path) -> float:
    """Return the cores whose time a container may use, infinity without a limit.

    Docker's `--cpus` and a limit of Kubernetes hide no core. More threads than the limit use up
    each tenth of a second early, and then all wait for the next one. `cgroup` is the folder of the
    container's control group, version 2 or 1 (the kernel's Documentation/admin-guide/cgroup-v2.rst,
    and scheduler/sched-bwc.rst).
    """
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / file).read_text() for file in files).split()
            # Without a limit it is max, or -1.
            if int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):
            continue
    return math.inf


def be_nice(nice: int) -> None:
    """Raise this process to niceness `nice`, if lower; only threads that start later inherit it.

    Niceness 19 takes only the time that no other process wants: by itself it would still have an
    eighth of a core beside a process of niceness 10.
    """
    if not 0 <= nice <= 19:
        raise ConfigError(f"nice takes 0 to 19; is: {nice}")
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    if nice == 19:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _converted(key: str, value: str, field_type: type) -> Any:
    try:
        return _BOOLS[value.lower()] if field_type is bool else field_type(value)
    except (KeyError, ValueError):
        raise ConfigError(
            f"parameter '{key}' takes {field_type.__name__}; it is '{value}'"
        ) from None
