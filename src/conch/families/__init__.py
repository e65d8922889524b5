"""The families of models that Conch serves: a folder each, and a line here, with its options."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from itertools import chain
from types import MappingProxyType
from typing import Any

from conch.families.ctc import FAMILY as CTC
from conch.families.ctc import CtcOptions
from conch.families.family import (
    AddedVoice,
    ComponentInfo,
    Decoder,
    Family,
    KnownModel,
    Rewriter,
    Synthesizer,
)
from conch.families.funasr import FAMILY as FUNASR
from conch.families.hibari import FAMILY as HIBARI
from conch.families.inverse_normalizer import FAMILY as INVERSE_NORMALIZER
from conch.families.inverse_normalizer import InverseNormalizerOptions
from conch.families.kaldi import FAMILY as KALDI
from conch.families.kokoro import FAMILY as KOKORO
from conch.families.moonshine import FAMILY as MOONSHINE
from conch.families.ngram import FAMILY as NGRAM
from conch.families.options import holds
from conch.families.piper import FAMILY as PIPER
from conch.families.punctuation import FAMILY as PUNCTUATION
from conch.families.punctuation import PunctuationOptions
from conch.families.silero import FAMILY as SILERO
from conch.families.silero import SileroOptions
from conch.families.smollm2 import FAMILY as SMOLLM2
from conch.families.smollm2 import NeuralOptions
from conch.families.speakers import FAMILY as SPEAKERS
from conch.families.speakers import SpeakerOptions
from conch.families.transducer import FAMILY as TRANSDUCER
from conch.families.turns import FAMILY as TURNS
from conch.families.turns import TurnOptions
from conch.families.wenet import FAMILY as WENET
from conch.families.wenet import WenetOptions
from conch.families.whisper import FAMILY as WHISPER
from conch.families.whisper import WhisperOptions

FAMILIES: tuple[Family, ...] = (
    *(SILERO, NGRAM, SMOLLM2),
    *(MOONSHINE, WHISPER, TRANSDUCER, FUNASR, KALDI, WENET, CTC),
    *(PUNCTUATION, INVERSE_NORMALIZER, SPEAKERS, TURNS),
    *(HIBARI, KOKORO, PIPER),
)
"""All families. Text steps work in this order, and so do scorers of texts: language models take the
longest, so they begin first. The first decoder that fits a request is its default."""
KNOWN_MODELS: Mapping[str, KnownModel] = MappingProxyType(
    {model.name: model for family in FAMILIES for model in family.known_models}
)


@dataclass(frozen=True, kw_only=True)
class FamilyOptions(
    InverseNormalizerOptions,
    PunctuationOptions,
    NeuralOptions,
    SileroOptions,
    CtcOptions,
    WhisperOptions,
    WenetOptions,
    SpeakerOptions,
    TurnOptions,
):
    """The options of all families, the last first: one class, so that readers know their types."""


VOICES = "CONCH_VOICES"
"""Environment variable of `tritonserver`: the voices that `add_voices` takes."""
_ADDED: dict[str, Synthesizer] = {}
_ADDED_FIELDS = {item.name for item in fields(AddedVoice)}


def all_families() -> tuple[Family, ...]:
    """Return the families as they are now: tests add some."""
    return FAMILIES


def all_components() -> Iterator[ComponentInfo]:
    return (component for family in all_families() for component in family.components)


def traits() -> Mapping[str, ComponentInfo]:
    return {component.name: component for component in all_components()}


def decoders() -> Mapping[str, Decoder]:
    return {decoder.name: decoder for family in all_families() for decoder in family.decoders}


def rewriters() -> Mapping[str, Rewriter]:
    """Return the rewriters by the option that asks for them, in the order of the work."""
    return {item.option: item for family in all_families() for item in family.rewriters}


def synthesizers() -> Mapping[str, Synthesizer]:
    return {item.name: item for family in all_families() for item in family.synthesizers}


def voices() -> Mapping[str, Synthesizer]:
    """Return the synthesizer of each voice, by its name; the first one is the default."""
    declared = {voice.name: item for item in synthesizers().values() for voice in item.voices}
    return declared | _ADDED


def add_voices(text: str) -> None:
    """Let this process know voices of a server: a JSON list of the fields of `AddedVoice`s."""
    for sent in json.loads(text):
        # A newer server may say more.
        added = AddedVoice(**{name: sent[name] for name in _ADDED_FIELDS & sent.keys()})
        _ADDED[added.name] = added.spoken_by(synthesizers()[added.synthesizer])


def replace_voices(texts: Iterable[str]) -> None:
    """Let this process know the voices of `add_voices` in these texts, and no others."""
    read = [*texts]
    _ADDED.clear()
    for text in read:
        add_voices(text)


def likening() -> Synthesizer:
    """Return the synthesizer that imitates the voice of a recording."""
    return next(item for item in synthesizers().values() if item.voice_style)


def voices_that_stand_for() -> Mapping[str, str]:
    """Return the voices of further values of the option `voice`; see `Synthesizer.stands_for`."""
    return dict(chain.from_iterable(item.stands_for.items() for item in synthesizers().values()))


def default_decoders(value_of: Callable[[str], Any]) -> Iterator[str]:
    """Yield the decoders for a request that names none, best first."""
    for decoder in decoders().values():
        if decoder.default_when is not None and holds(decoder.default_when, value_of):
            yield decoder.name


def takers(option: Field[Any]) -> tuple[str, ...]:
    """Return the decoders that take an option; empty for all."""
    named: tuple[str, ...] = option.metadata["decoders"]
    others = (item.name for item in decoders().values() if option.name in item.takes)
    return (*named, *others) if named else ()


def rescorers() -> Mapping[str, str]:
    """Return the components of the values of the option `rescorer`."""
    return dict(chain.from_iterable(family.rescorers.items() for family in all_families()))


add_voices(os.environ.get(VOICES, "[]"))
