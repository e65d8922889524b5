"""What `info` says of the services behind a gateway."""

from collections.abc import Iterable
from typing import Any

from wyoming.info import AsrModel, AsrProgram, Attribution, Info, TtsProgram, TtsVoice

from conch import __version__
from conch.families.family import Voice
from conch.gateway.models import DEFAULT_MODEL

_CONCH = Attribution("Conch", "https://pypi.org/project/conch")


def described(languages: Iterable[str], models: Iterable[str], voices: Iterable[Voice]) -> Info:
    """Return the services: recognition with its models, and speech if there are voices."""
    about: dict[str, Any] = {"attribution": _CONCH, "installed": True, "version": __version__}
    recognition = AsrProgram(
        name=DEFAULT_MODEL,
        description="Speech to text",
        models=[
            AsrModel(name=name, description=name, languages=[*languages], **about)
            for name in models
        ],
        supports_transcript_streaming=True,
        **about,
    )
    spoken = [
        TtsVoice(
            name=voice.name,
            description=f"{voice.name}: {voice.description}",
            languages=[voice.language],
            **about,
        )
        for voice in voices
    ]
    speech = TtsProgram(
        name=DEFAULT_MODEL,
        description="Text to speech",
        voices=spoken,
        supports_synthesize_streaming=True,
        **about,
    )
    return Info(asr=[recognition], tts=[speech] if spoken else [])
