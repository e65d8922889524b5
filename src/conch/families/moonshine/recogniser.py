"""Moonshine as a recogniser."""

from conch.families.attention.recogniser import AttentionRecogniser
from conch.families.moonshine.declaration import COMPONENTS

MOONSHINE = AttentionRecogniser(*COMPONENTS, continues=True)
