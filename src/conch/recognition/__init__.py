"""Speech recognition: the paths of requests through the component models."""

from conch.bls.config import own_components
from conch.recognition.config import RecognitionConfig
from conch.recognition.recognizer import Recognizer
from conch.recognition.request import RecognitionRequest
from conch.recognition.service import Recognition

__all__ = ["Recognition", "RecognitionConfig", "RecognitionRequest", "Recognizer", "own_components"]
