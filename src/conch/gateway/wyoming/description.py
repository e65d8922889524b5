"""What `info` says of the services behind a gateway."""

from collections.abc import Iterable
from typing import Any

from wyoming.info import AsrModel, AsrProgram, Attribution, Info, TtsProgram, TtsVoice

from conch import __version__
from conch.families import all_families
from conch.gateway.models import DEFAULT_MODEL
from conch.wire.entry_points import SYNTHESIS

_CONCH = Attribution("Conch", "https://pypi.org/project/conch")


def described(languages: Iterable[str], models: Iterable[str], served: set[str]) -> Info:
    """Return the services: recognition with its models, and speech where it is `served`.

    Args:
        languages: Codes of the languages that are recognised.
        models: Names of models, the default first.
        served: Entry points that a server has.
    """
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
    voices = [
        TtsVoice(
            name=voice.name,
            description=f"{voice.name}: {voice.description}",
            languages=[voice.language],
            **about,
        )
        for family in all_families()
        for synthesizer in family.synthesizers
        for voice in synthesizer.voices
    ]
    speech = TtsProgram(
        name=DEFAULT_MODEL,
        description="Text to speech",
        voices=voices,
        supports_synthesize_streaming=True,
        **about,
    )
    return Info(asr=[recognition], tts=[speech] if SYNTHESIS[1] in served else [])
