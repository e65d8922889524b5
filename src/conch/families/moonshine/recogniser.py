"""Moonshine as a recogniser."""

from conch.families.attention.recogniser import AttentionRecogniser
from conch.families.moonshine import COMPONENTS

MOONSHINE = AttentionRecogniser(*COMPONENTS, continues=True)
