"""Make model repositories for one server of a benchmark: chosen models with changed settings."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.launcher.repositories import shipped_repositories
from conch.wire.errors import BenchError
from lab.settings import Setting

REPOSITORIES = Path(__file__).parent / "repositories"


@contextmanager
def repository_of(models: Sequence[str], settings: Sequence[Setting] = ()) -> Iterator[Path]:
    """Yield a model repository of the named models, a copy that is removed afterwards."""
    for setting in settings:
        if setting.model not in models:
            raise BenchError(f"cannot set {setting}: the models are {', '.join(models)}")
    with TemporaryDirectory(prefix="conch-bench-") as folder:
        for model in models:
            copy = Path(folder) / model
            shutil.copytree(model_folder(model), copy, ignore=shutil.ignore_patterns("__pycache__"))
            own = [setting for setting in settings if setting.model == model]
            if own:
                config = read_config(model)
                for setting in own:
                    setting.apply(config)
                text = text_format.MessageToString(config)
                (copy / "config.pbtxt").write_text(text, encoding="utf-8")
        yield Path(folder)


def own_repositories() -> tuple[Path, ...]:
    return tuple(sorted(path for path in REPOSITORIES.iterdir() if path.is_dir()))


def model_folder(model: str) -> Path:
    repositories = (*shipped_repositories(), *own_repositories())
    for repository in repositories:
        if (repository / model / "config.pbtxt").is_file():
            return repository / model
    raise BenchError(f"no model {model} in {', '.join(map(str, repositories))}")


def read_config(model: str) -> Any:
    """Return a model's config.pbtxt as Triton's own message `ModelConfig`."""
    text = (model_folder(model) / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def model_args(config: Any) -> dict[str, str]:
    """Return the arguments of a Python model's `initialize` that Conch reads."""
    sent = {key: {"string_value": item.string_value} for key, item in config.parameters.items()}
    groups = [{"count": group.count} for group in config.instance_group]
    return {"model_config": json.dumps({"parameters": sent, "instance_group": groups})}
