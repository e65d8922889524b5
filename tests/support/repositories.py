"""The project's model repositories with other parameters."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def repositories_with(folder: Path, changes: Mapping[str, Mapping[str, str]]) -> tuple[Path, ...]:
    """Copy both repositories into a folder and set parameters: model → key → value."""
    repositories = tuple(folder / name for name in ("bls_models", "component_models"))
    for repository in repositories:
        shutil.copytree(ROOT / repository.name, repository)
    for model, parameters in changes.items():
        (config,) = (path for path in folder.glob(f"*/{model}/config.pbtxt"))
        text = config.read_text()
        for key, value in parameters.items():
            pattern = rf'("{key}" value {{ string_value: )"[^"]*"'
            text, count = re.subn(pattern, rf'\1"{value}"', text)
            assert count == 1, (model, key)
        config.write_text(text)
    return repositories
