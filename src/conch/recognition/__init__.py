"""The paths of requests through the component models."""

from conch.bls.calls import Components, Tensor
from conch.recognition.config import OrchestratorConfig
from conch.recognition.recognizer import Recognizer
from conch.recognition.request import SpeechRequest

__all__ = ["Components", "OrchestratorConfig", "Recognizer", "SpeechRequest", "Tensor"]
