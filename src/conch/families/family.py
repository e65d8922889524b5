"""Types of the declaration of a family of models.

A declaration is data: client, gateway and launcher read it. It imports no model, and nothing else
of Conch.
"""

import importlib.util
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from conch.families.options import Rule, When

ToText = Literal["find speech", "encode", "decode", "rescore", "write", "label"]
"""Step of a component on the way from a recording to its text: text steps write, speakers label."""
ToSpeech = Literal["read", "voice", "sound"]
"""Step of a component on the way from a text to its sound."""
Step = ToText | ToSpeech
TO_TEXT: tuple[str, ...] = get_args(ToText)
TO_SPEECH: tuple[str, ...] = get_args(ToSpeech)


def user_folder(variable: str, default: str) -> Path:
    """Return Conch's folder by the XDG Base Directory Specification; no home is a home in `/`."""
    home = os.path.expanduser("~")
    whole = os.path.join("/" if home == "~" else home, default)
    return Path(os.environ.get(variable) or whole).absolute() / "conch"


def models_home() -> Path:
    """Return the folder of models, `$XDG_DATA_HOME/conch/models`, which need not exist yet."""
    return user_folder("XDG_DATA_HOME", ".local/share") / "models"


@dataclass(frozen=True, slots=True)
class WeightsPackage:
    """A Python package that holds weights."""

    what: str
    """Names the weights in errors."""
    module: str
    """Module that has the weights; it is not imported."""
    distribution: str
    """Name of the package for pip."""
    command: str = ""
    """Command that installs it; empty for Conch's extra `server`."""
    also_needs: "WeightsPackage | None" = None
    """Another package that its models need."""
    fetched: str = ""
    """Name of a model that `conch models get` fetches, in place of a package."""

    @property
    def is_of_user(self) -> bool:
        """Whether only a folder of the user's has them."""
        return not (self.module or self.fetched)

    @property
    def folder(self) -> Path | None:
        """Folder of the package; None where it is not installed."""
        if self.fetched:
            path = models_home() / self.fetched
            return path if path.is_dir() else None
        if self.is_of_user:
            return None
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            return None
        return Path(spec.submodule_search_locations[0])

    @property
    def lacking(self) -> "WeightsPackage | None":
        """First of the needed packages that is not installed; None if all are."""
        return self if self.folder is None else self.also_needs and self.also_needs.lacking


@dataclass(frozen=True, slots=True)
class KnownFile:
    size: int
    """Bytes."""
    sha256: str
    parts: tuple[str, ...] = ()
    """Paths inside packages, which are joined to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model of known files, which `conch models get` brings to this machine or a package has."""

    name: str
    kind: str
    """Name in `conch.catalogue.models.KINDS`; empty for one that a server has once it is there."""
    title: str
    languages: int
    """Number of languages; 0 for any."""
    licence: str
    files: Mapping[str, KnownFile]
    """Files by their names in the model's folder."""
    requirements: tuple[str, ...] = ()
    """Packages that pip fetches; empty for a model of `package`."""
    npm: str = ""
    """Package that npm fetches besides."""
    package: WeightsPackage | None = None
    """The installed package that holds the model, in `package_folder`."""
    package_folder: str = ""
    shipped: WeightsPackage | None = None
    """Packages whose files, in several folders, a server takes if no model is chosen."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def sha256(self) -> dict[str, str]:
        return {name: file.sha256 for name, file in self.files.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traits:
    is_one_by_one: bool = False
    """Whether the model answers the calls of a batch one after the other on a CPU."""
    in_flight: int = 0
    """Most rows that are in flight together (`conch.triton.in_flight.start`), so that a call that
    nobody waits for can leave; 0 for a component that answers whole batches."""
    hang_factor: float = 15.0
    """Multiple of the expected time after which a call counts as hung: more if the work does not
    follow from the size of the input."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentInfo(Traits):
    """A model of `component_models`, which others may replace by one with the same tensors.

    Its config.pbtxt has the tensors, and component_models/README.md says what they mean.
    """

    name: str
    title: str
    """Short name in a picture of the path."""
    step: Step
    is_stream: bool = False
    """Whether it keeps streams: it is sequence-batched."""
    package: WeightsPackage | None = None
    """Package of its default weights; None if they are part of Conch, or if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelKind:
    """Models that the same components load, and of which a user may have another than the default.

    `conch.catalogue.models` calls the functions that it names as `module:name`.
    """

    name: str
    """The flag `--NAME` chooses one."""
    title: str
    components: tuple[str, ...]
    form: str
    """Form of a folder of the user's, in words."""
    others: str = "docs/guide/your-model.md says what it holds"
    """Source of more models, in words."""
    help: str = ""
    """Help of the flag; empty if only some commands have it."""
    value: str = "FOLDER"
    """Placeholder of the flag's value in the help."""
    check: str
    """Takes a folder and returns its `ModelSummary`, or raises an `UnfitModelError`."""
    networks: str = ""
    """Takes a folder and returns the networks that a server of ONNX models can run; empty for a
    kind that has none."""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoder:
    """A value of the option `decoder`: an encoder and a decoder that write the text."""

    name: str
    components: tuple[str, ...]
    """Encoder and decoder of a segment; empty if it writes no text."""
    live: tuple[str, ...] = ()
    """Encoder and decoder of a live stream; empty if it hears none."""
    recogniser: str = ""
    """Its `Recogniser` in `conch.recognition.hooks`, as `module:name`."""
    first_pass: str = ""
    """The `BeginFirstPass` of live audio, as `module:name`; empty if it hears none."""
    default_when: When | None = None
    """Options with which it writes the text if a request leaves that open; None for none. The first
    in the order of `FAMILIES` counts that the server has."""
    live_when: When = field(default_factory=dict)
    """Options with which it is the default decoder of live audio; the first such decoder counts."""
    writes_punctuation: bool = False
    """Whether its text has punctuation and case."""
    follows: tuple[str, ...] = ()
    """Options of rewriters that it follows itself; its text has punctuation and case with them."""
    detects_language: bool = False
    """Whether it says which language was spoken; otherwise it knows one."""
    languages: tuple[str, ...] = ()
    """The languages that it knows; empty for those of its weights."""
    doubtful_below: float = -math.inf
    """Log probability of a character below which the speech is likely in none of `languages`."""
    reads_prompt: bool = False
    may_omit_speech: bool = False
    """Whether its text may leave out speech with a good score."""
    is_rolling: bool = False
    """Whether it passes over an open live utterance again and again."""
    has_language_model: bool = False
    """Whether its scores hold those of a language model, which a rescorer's scores replace."""
    takes: tuple[str, ...] = ()
    """Options of other families that it accepts although they do not name it."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of options that differ from those of others."""
    rescored: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of options with rescoring."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options that each value of `accuracy` but fast sets."""
    weights: Mapping[tuple[str, ...], Mapping[str, float]] = field(default_factory=dict)
    """Weights of the scores of a hypothesis, by the scorers in alphabetical order; `fusion` is the
    language model in its search. The values are fields of `conch.wire.nbest.Weights`."""


@dataclass(frozen=True, slots=True)
class Voice:
    name: str
    language: str
    """Language code, such as en-US."""
    description: str
    """Sound of the voice, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Synthesizer:
    """Components that speak a text, and the voices that they have."""

    name: str
    text_frontend: str
    acoustic: str
    vocoder: str
    sample_rate: int
    frame_samples: int
    frames_before: int
    """Frames of context before a stretch."""
    frames_after: int
    """Frames of context after a stretch."""
    phrases: tuple[int, int]
    """Most characters of the first sentence of a text, and of others."""
    first_frames: int
    """Frames of the first chunk of a text."""
    growth: float
    """Length of a chunk over that of the one before, which plays while it is made."""
    most_frames: int
    """Frames of the longest chunk, and of a sentence's rest half as many more."""
    voices: tuple[Voice, ...]
    has_speakers: bool = False
    """Whether `NAME#SPEAKER` is a value too, for voices of several speakers."""
    voice_style: str = ""
    """Component that finds its voice for a recording; empty for none."""
    embedding: str = ""
    """Component that says how such a voice sounds; empty for none."""
    gradient: str = ""
    """Component that says how a voice gets more like a recording; empty for none."""
    mixes: bool = False
    is_fitted: bool = False
    """Whether its voice imitates a person: what it speaks has a mark."""
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """Voices by further values of the option `voice`, which others know: those that mean the
    default voice on a server without the synthesizer's components."""

    @property
    def components(self) -> tuple[str, ...]:
        """Components in the order of their calls."""
        return self.text_frontend, self.acoustic, self.vocoder


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedVoice:
    """A voice of a server that is in no declaration: one of the user's files."""

    synthesizer: str
    name: str
    language: str
    description: str
    has_speakers: bool
    sample_rate: int
    frame_samples: int
    context: int
    """Frames on each side of a stretch on which its sound depends."""
    is_fitted: bool = False

    def spoken_by(self, declared: Synthesizer) -> Synthesizer:
        """Return its synthesizer, from the one declared for all such voices."""
        return replace(
            declared,
            voices=(Voice(self.name, self.language, self.description),),
            has_speakers=self.has_speakers,
            sample_rate=self.sample_rate,
            frame_samples=self.frame_samples,
            frames_before=self.context,
            frames_after=self.context,
            mixes=declared.mixes and not self.is_fitted,
            is_fitted=self.is_fitted,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook:
    """A function of a family that a request asks for by its options."""

    function: str
    """Name of the function, as `module:name`."""
    when: When


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScorerHook(Hook):
    """A function that scores the texts of a segment; `when` never sees rescorer=auto."""

    score: str
    """The field of `Hypothesis` that holds its scores."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingHook(Hook):
    """A function that works on all segments of a recording."""

    prepare: str = ""
    """The `Prepare` before the recording, as `module:name`; empty for none."""
    prepare_s: str = ""
    """Function from the options to the most seconds of audio that it hears, as `module:name`."""
    hear: str = ""
    """The `Hear` of each segment, as `module:name`; empty if the audio does not matter."""
    in_parts: str = ""
    """The `BeginParts` of a streamed answer, as `module:name`; empty if only the end has labels."""
    needs_words: bool = False
    """Whether its segments have words even if the request asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FamilyHooks:
    """Functions that recognition calls, as `module:name`.

    `conch.recognition.hooks` has their types.
    """

    second_opinion: str = ""
    """Decoder that says whether there are words in a gap of another recogniser's text."""
    find_speech: str = ""
    """A hook of the type `FindSpeech`."""
    score_texts: tuple[ScorerHook, ...] = ()
    """Hooks of the type `ScoreTexts`."""
    after_recording: tuple[RecordingHook, ...] = ()
    """Hooks of the type `AfterRecording`."""
    end_of_turn: Hook | None = None
    """A hook of the type `EndOfTurn`."""
    in_stream: tuple[Hook, ...] = ()
    """Hooks of the type `BeginLabels`, for live audio; the first that an option asks for counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewriter:
    """A component that rewrites a segment's text, and that a request needs if an option is true."""

    component: str
    option: str
    adds_punctuation: bool = False
    """Whether text that has punctuation already has no need of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """Components that a request calls if its options say so."""

    components: tuple[str, ...]
    when: When
    purpose: Literal["recognition", "rescoring"] = "recognition"

    @property
    def reason(self) -> str:
        """The first option of `when` in words, such as vad=true."""
        option, value = next(iter(self.when.items()))
        return f"{option}=true" if value is True else option


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Models that belong together. `conch.families.FAMILIES` has all of them."""

    name: str
    title: str
    components: tuple[ComponentInfo, ...] = ()
    decoders: tuple[Decoder, ...] = ()
    rescorers: Mapping[str, str] = field(default_factory=dict)
    """Components by the values of the option `rescorer` that they answer."""
    models: tuple[ModelKind, ...] = ()
    known_models: tuple[KnownModel, ...] = ()
    synthesizers: tuple[Synthesizer, ...] = ()
    options: type | None = None
    """A frozen dataclass of `conch.families.options.option`s, each with a default."""
    rules: tuple[Rule, ...] = ()
    """Options that do not go together."""
    needs: tuple[Need, ...] = ()
    """Beyond the components of its decoders and rewriters."""
    warm_ups: tuple[Mapping[str, Any], ...] = ()
    """Options of requests that reach its components, once when a server starts."""
    rewriters: tuple[Rewriter, ...] = ()
    hooks: FamilyHooks = FamilyHooks()

    @property
    def hook_names(self) -> tuple[str, ...]:
        """Names of all functions of `hooks` and of the decoders, as `module:name`."""
        it = self.hooks
        names = [name for item in self.decoders for name in (item.recogniser, item.first_pass)]
        for hook in it.after_recording:
            names += (hook.prepare, hook.prepare_s, hook.hear, hook.in_parts)
        by_options = (*it.score_texts, *it.after_recording, *it.in_stream, it.end_of_turn)
        names += (hook.function for hook in by_options if hook)
        return tuple(filter(None, (*names, it.find_speech)))
