"""Skips tests whose models this machine lacks."""

import pytest

from conch.catalogue.models import state_of
from conch.families.family import KnownModel
from conch.packaged import how_to_get


def skip_without(*models: KnownModel) -> None:
    """Skip the test if one of these models is missing or broken."""
    for model in models:
        if wrong := state_of(model):
            pytest.skip(f"the model {model.name} is {wrong}: {how_to_get(model)}")
