"""Speech recognition: the paths of requests through the component models."""

from conch.recognition.config import RecognitionConfig
from conch.recognition.recognizer import Recognizer
from conch.recognition.request import SpeechRequest
from conch.recognition.service import Recognition, own_components

__all__ = ["Recognition", "RecognitionConfig", "Recognizer", "SpeechRequest", "own_components"]
