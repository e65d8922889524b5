"""The paths of requests through the component models."""

from conch.orchestrator.calls import Components, Tensor
from conch.orchestrator.config import OrchestratorConfig
from conch.orchestrator.recognizer import Recognizer
from conch.orchestrator.request import SpeechRequest

__all__ = ["Components", "OrchestratorConfig", "Recognizer", "SpeechRequest", "Tensor"]
