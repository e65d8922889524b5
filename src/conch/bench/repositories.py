"""Model repositories for one server of a benchmark: some models of several, as many instances."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.errors import BenchError
from conch.server.repositories import benchmark_repositories, shipped_repositories

WHISPER = ("attention_encoder", "attention_decoder")
"""The models that must name the same Whisper folder."""


@contextmanager
def repository_of(
    models: Sequence[str], instances: int | None = None, *, whisper: Path | None = None
) -> Iterator[Path]:
    """Yield a model repository of the named models, a copy that is removed afterwards.

    Args:
        models: folders of Conch's repositories and of those under benchmarks/.
        instances: of the first model; None leaves what its config.pbtxt says.
        whisper: CTranslate2 folder for those of the models that take one; None leaves what their
            config.pbtxt says.

    Raises:
        BenchError: a model is in none of them.
    """
    with TemporaryDirectory(prefix="conch-bench-") as folder:
        for model in models:
            shutil.copytree(
                model_folder(model),
                Path(folder) / model,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        if instances is not None:
            config = read_config(models[0])
            config.instance_group[0].count = instances
            _write_config(Path(folder) / models[0], config)
        if whisper is not None:
            for model in set(models) & set(WHISPER):
                config = read_config(model)
                config.parameters["model"].string_value = str(whisper.resolve())
                _write_config(Path(folder) / model, config)
        yield Path(folder)


def _write_config(folder: Path, config: Any) -> None:
    (folder / "config.pbtxt").write_text(text_format.MessageToString(config))


def model_folder(model: str) -> Path:
    """Return where a model lies.

    Raises:
        BenchError: it is in none of the repositories.
    """
    places = (*shipped_repositories(), *benchmark_repositories())
    for place in places:
        if (place / model / "config.pbtxt").is_file():
            return place / model
    raise BenchError(f"no model {model} in {', '.join(map(str, places))}")


def read_config(model: str) -> Any:
    """Return a model's config.pbtxt as Triton's own message `ModelConfig`."""
    text = (model_folder(model) / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def model_args(config: Any) -> dict[str, str]:
    """Return what Triton passes to a Python model's `initialize`, as far as parameters go."""
    sent = {key: {"string_value": item.string_value} for key, item in config.parameters.items()}
    return {"model_config": json.dumps({"parameters": sent})}
