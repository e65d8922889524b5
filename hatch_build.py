"""Puts the model repositories into the wheel, but not into an editable install.

A plain `force-include` would also copy them beside an editable install, where the copy goes
stale at the first edit.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

REPOSITORIES = ("bls_models", "component_models")


class ModelRepositoriesHook(BuildHookInterface[Any]):
    """Maps each repository to `conch/_models/` in a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            for name in REPOSITORIES:
                build_data["force_include"][name] = f"conch/_models/{name}"
