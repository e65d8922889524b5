"""Settings to try: single values of models' config.pbtxt files, for one server."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format

from conch.wire.errors import BenchError

INSTANCES = "instances"
"""Name of a setting that is the count of a model's instance group."""
_FORM = re.compile(r"(?P<model>\w+)\.(?P<name>\w+(\.\w+)*)=(?P<value>[^,]*)")


@dataclass(frozen=True, slots=True)
class Setting:
    model: str
    name: str
    """Name of a parameter in config.pbtxt, `instances`, or the path of a single field of
    Triton's `ModelConfig`."""
    value: str

    def __str__(self) -> str:
        return f"{self.model}.{self.name}={self.value}"

    def apply(self, config: Any) -> None:
        """Write the setting into a model's `ModelConfig`; only the model checks its parameters."""
        if self.name in config.parameters:
            config.parameters[self.name].string_value = self.value
            return
        try:
            if self.name == INSTANCES:
                count = int(self.value)
                if count < 1:
                    raise ValueError("a model takes one instance at least")
                config.instance_group[0].count = count
                return
            path = self.name.split(".")
            _check_single(config, path)
            text = " { ".join(path) + f": {self.value}" + " }" * (len(path) - 1)
            text_format.Merge(text, config)
        except (ValueError, IndexError, text_format.ParseError) as error:
            raise BenchError(
                f"cannot set {self}: {self.model} takes its parameters "
                f"({', '.join(sorted(config.parameters)) or 'it has none'}), {INSTANCES}, and "
                f"single fields of Triton's ModelConfig such as max_batch_size: {error}"
            ) from error


def _check_single(config: Any, path: Sequence[str]) -> None:
    """Raise ValueError for a list or map on the path: merging would add to it, not set it."""
    value = config
    for name in path:
        value = getattr(value, name, None)
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            raise ValueError(f"{name} has several values")


def read_settings(text: str) -> tuple[Setting, ...]:
    """Return settings that belong together, separated by commas.

    >>> [str(item) for item in read_settings("vad.instances=2,speech.max_streams=9")]
    ['vad.instances=2', 'speech.max_streams=9']
    """
    settings = []
    for part in text.split(","):
        parts = _FORM.fullmatch(part.strip())
        if parts is None:
            raise BenchError(f"a setting is MODEL.NAME=VALUE; sent: {part.strip()!r}")
        settings.append(Setting(parts["model"], parts["name"], parts["value"]))
    return tuple(settings)
