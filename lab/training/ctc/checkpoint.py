"""Checkpoints: written so that none is ever half a file, averaged at the end."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from conch.decoding.units import Units, units_from_dict
from conch.whole import made_whole
from lab.training.ctc.model import CtcModel, CtcModelConfig

FINAL = "final.pt"
"""The averaged model, in the folder of a training."""


def save(path: Path, model: CtcModel, units: Units, **rest: Any) -> None:
    """Write a model, and what else a training needs to go on from it."""
    content = {
        "model": model.state_dict(),
        "config": asdict(model.config),
        "units": units.to_dict(),
        **rest,
    }
    with made_whole(path) as made:
        torch.save(content, made)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a training's folder, oldest first."""
    return sorted(folder.glob("checkpoint-*.pt"))


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return content


def load_model(path: Path) -> tuple[CtcModel, Units]:
    """Return the model of a checkpoint, ready for inference, and its units."""
    content = load(path)
    model = CtcModel(CtcModelConfig(**content["config"]))
    model.load_state_dict({name: value.float() for name, value in content["model"].items()})
    return model.eval(), units_from_dict(content["units"])


def averaged(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    states = [load(path)["model"] for path in paths]
    return {
        name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]
    }
