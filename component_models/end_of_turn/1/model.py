"""Has the speaker finished?"""

from conch.families.turns.model import EndOfTurnComponent, TurnsConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(EndOfTurnComponent, TurnsConfig)
