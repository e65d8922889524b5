"""The options of one request: every default, range and meaning, in one frozen dataclass.

A request carries its options as Triton request parameters. An `OptionError` names the option, its
range and the value that was sent.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, TypeVar

from conch.families import (
    FamilyOptions,
    all_families,
    decoders,
    default_decoders,
    rewriters,
    takers,
)
from conch.families.family import Family, Rewriter
from conch.families.options import Above, Other, Rule, holds, option
from conch.wire.errors import OptionError
from conch.wire.hotwords import hotwords_of, prompt_of
from conch.wire.known_speakers import KnownSpeakers
from conch.wire.languages import code_of
from conch.wire.limits import MAX_HOTWORD_TEXT
from conch.wire.named_models import post_models
from conch.wire.nbest import Opinion, Weights, fusion_weights, tuned_weights
from conch.wire.option_values import checked
from conch.wire.replacements import read_replacements

_TUNED = "tuned for each decoder"
_RESCORING = ("rescore", "ctc_rescore", "attention_rescore")
_HEARING = ", ".join(item.name for item in decoders().values() if item.live)
_UNRESCORED: Mapping[str, Any] = dict.fromkeys(_RESCORING, False)

Options = TypeVar("Options")


@dataclass(frozen=True, kw_only=True)
class RecognitionOptions(FamilyOptions):
    """The options of one request, with their defaults.

    Those of the families are inherited, so that a path reads them by name. `of` returns the options
    of a family that Conch does not ship, with their types.
    """

    mode: Literal["auto", "offline", "streaming", "two_pass"] = option(
        "auto",
        "the path. auto is offline for a recording. For live audio it is streaming with lm_fusion, "
        f"endpointing=false or a streaming decoder ({_HEARING}), or on a server without Moonshine "
        "and Whisper; otherwise two_pass",
    )
    decoder: str = option(
        next(name for name, item in decoders().items() if item.default_when is not None),
        "what writes the text: attention is Whisper, wfst CTC in a graph of known words; none only "
        "tells who speaks when; the live text of two_pass comes from wfst, or from ctc with "
        "lm_fusion",
        otherwise="attention with prompt, languages, task=translate or another language than en, "
        "or on a server without Moonshine; with your own model its decoder",
        choices=lambda: tuple(decoders()),
    )
    model: str = option(
        "",
        "name of a model of conch serve --model NAME=FOLDER, which sets the default of decoder",
        longest=128,
    )
    channels: Literal["mix", "split"] | int = option(
        "mix",
        "of a recording: mix all channels into one, transcribe each by itself (at most 8), or "
        "take one by its number",
        low=1,
        high=64,
    )
    language: str = option("auto", "language of the speech: en, de-AT, german; auto detects it")
    accuracy: Literal["fast", "balanced", "best"] = option(
        "fast",
        "how much is spent on fewer errors: balanced and best set options that are not sent",
    )
    beam_size: int = option(
        1,
        "hypotheses that the search keeps, at most 32 with attention, moonshine, transducer or "
        "attention_rescore; with wfst those to rescore",
        low=1,
        high=128,
        otherwise="with attention 5, with ctc or wfst 16; 10 if they are rescored; at least nbest",
    )
    nbest: int = option(1, "hypotheses to return, best first; at most beam_size", low=1, high=128)
    rescore: bool = option(
        False,
        "score the hypotheses again with a language model; with wfst, its score replaces the "
        "graph's",
    )
    rescorer: Literal["auto", "neural", "ngram"] = option(
        "auto", "the language model of rescore; auto is neural if the server has it"
    )
    lm_weight: float | None = option(
        None,
        "weight of the language model's score in fusion and rescoring",
        low=0,
        high=10,
        otherwise=_TUNED,
    )
    word_bonus: float | None = option(
        None,
        "score added for each word in fusion and rescoring",
        low=-20,
        high=20,
        otherwise=_TUNED,
    )
    rescore_margin: float = option(
        3.0,
        "rescore the hypotheses within this many nats of the best, and at least the nbest first",
        low=0,
        high=1000,
        otherwise="with ctc or wfst 8.0",
    )
    names: str = option(
        "",
        "names and terms, separated by commas, the most important first: Syme, Triton Inference "
        "Server; sets hotwords, and for Whisper prompt, unless these are sent",
        longest=MAX_HOTWORD_TEXT,
    )
    hotwords: str = option(
        "",
        "phrases to prefer, separated by commas, each with or without a weight: Conch:8, Triton",
        longest=MAX_HOTWORD_TEXT,
    )
    hotword_weight: float = option(
        8.0,
        "weight of a hotword without its own, less for phrases under ten letters; a higher one "
        "finds more, and invents more",
        low=0,
        high=100,
    )
    replace: str = option(
        "",
        "rules from recognised to written forms, separated by semicolons: conch=>Conch; new york "
        "city=>NYC",
    )
    post: str = option(
        "",
        "at most 8 models on the server that rewrite the text at the end, in this order, separated "
        "by commas",
    )
    word_timestamps: bool = option(False, "start, end and confidence of every word")
    coverage: bool = option(
        True,
        "with attention or moonshine, and task transcribe: find speech that the text leaves out, "
        "and decode it again",
    )
    max_segment_s: float = option(
        25.0,
        "longest segment; with vad at least 4 times vad_pad_ms",
        low=1,
        high=30,
    )
    partials: bool = option(True, "live: send text before it is final")
    rolling_pass_ms: int = option(
        1280,
        "live, two_pass with attention or moonshine: audio between two passes over an open "
        "utterance; 0 is none before a pause",
        low=0,
        high=10_000,
    )
    adaptive: bool = option(
        True,
        "live, two_pass: make fewer passes while the server is busy; false makes all of them, and "
        "chunks wait for them",
    )
    stream_priority: Literal["low", "normal", "high"] = option(
        "normal", "live, two_pass: the share of passes of a stream while the server is busy"
    )
    history_s: int = option(
        600,
        "live: seconds of ended utterances in the final answer, and in the text of each answer "
        "with repeat_text or the output TRANSCRIPTS; 0 for all",
        low=0,
        high=86_400,
    )
    repeat_text: bool = option(
        False,
        "live: the text of each answer repeats that of history_s",
    )
    endpointing: bool = option(
        True,
        "live: end utterances by the rules endpoint_silence_ms and endpoint_no_speech_ms; "
        "max_utterance_s holds in any case",
    )
    endpoint_silence_ms: int = option(
        1000,
        "live, rule silence: silence after speech that ends an utterance",
        low=100,
        high=10_000,
    )
    endpoint_no_speech_ms: int = option(
        5000, "live, rule no_speech: silence before any speech", low=500, high=60_000
    )
    max_utterance_s: float = option(
        20.0, "live, rule length: the longest utterance", low=2, high=28
    )
    deadline_ms: int = option(
        0,
        "time budget of a request, or of each live chunk; a live chunk that misses it ends the "
        "stream; 0 is none",
        low=0,
        high=86_400_000,
    )

    sent: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Checked values that `parse` was given. A client sends these alone, because a server has its
    own defaults for the others."""

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], *, live: bool = False) -> "RecognitionOptions":
        """Build options from request parameters, those of a `live` stream from its first chunk.

        Raise an OptionError for an unknown name, a wrong type, a value out of range, or two options
        that contradict each other.
        """
        options = cls._best(_read(parameters), live=live)
        # It keeps the text alone of voices that may have megabytes: few read these again.
        texts = {name: parameters[name] for name in ("known_speakers",) if name in parameters}
        sent = {name: options.value(name) for name in parameters} | texts
        return replace(options, sent=sent, **texts)

    def unless_sent(self, **defaults: Any) -> "RecognitionOptions":
        """Return options that send these values, which go with all others, unless they have own."""
        return replace(self, **{**defaults, **self.sent}, sent={**defaults, **self.sent})

    @classmethod
    def _best(cls, sent: Mapping[str, Any], *, live: bool) -> "RecognitionOptions":
        """Return options with the default decoder, or with the first that takes what was sent.

        A named model takes the first: its server alone knows which decoder it has.
        """
        if not sent.get("model") or "decoder" in sent:
            return cls._meant(sent, live=live)
        problems = []
        for name in decoders():
            try:
                return cls._meant({**sent, "decoder": name}, live=live)
            except OptionError as error:
                problems.append(error)
        raise problems[0]

    @classmethod
    def _meant(cls, values: Mapping[str, Any], *, live: bool) -> "RecognitionOptions":
        """Return what the values that were read mean; raise an OptionError if two contradict."""
        known, sent = all_options(), dict(values)
        if sent.get("mode", "auto") == "auto":
            sent["mode"] = _live_mode(sent) if live else "offline"
        if live != (sent["mode"] in ("streaming", "two_pass")):
            what = "a stream's chunks" if live else "a request without a sequence id"
            raise OptionError(f"option 'mode' of {what} cannot be {sent['mode']}")
        is_streaming = sent["mode"] == "streaming"
        sent.setdefault("decoder", (_live_decoder if is_streaming else _default_decoder)(sent))
        chosen = {**_preset(sent), **_of_names(sent), **sent}
        is_rescored = any(map(chosen.get, _RESCORING))
        defaults = _defaults(chosen["decoder"], is_rescored, chosen.get("nbest", 1))
        options = _class_of(all_families())(**{**defaults, **chosen})
        for name, item in known.items():
            if takers(item) and options.value(name) and not options.is_followed(item):
                wanted = " or ".join(takers(item))
                model = options.model and f" of model {options.model}"
                raise OptionError(
                    f"option '{name}' goes with decoder {wanted}; decoder{model} is "
                    f"{options.decoder}"
                )
        for rule in all_rules():
            if holds(rule.when, options.value):
                values = {name: options.value(name) for name in known}
                raise OptionError(rule.message.format(**values))
        # Each raises an error if the text cannot be read.
        hotwords_of(options.hotwords, options.hotword_weight)
        read_replacements(options.replace)
        post_models(options.post)
        if options.task == "translate":
            # It compares the text with the audio, by the CTC model and by the length of words.
            options = replace(options, coverage=False)
        return options

    @classmethod
    def candidates(
        cls, parameters: Mapping[str, Any], *, live: bool = False
    ) -> Iterator["RecognitionOptions"]:
        """Yield what request parameters may mean, the best first; see `choices`."""
        best, others = cls.choices(parameters, live=live)
        return chain((best,), others or ())

    @classmethod
    def choices(
        cls, parameters: Mapping[str, Any], *, live: bool = False
    ) -> tuple["RecognitionOptions", "Iterator[RecognitionOptions] | None"]:
        """Return the best of what request parameters may mean, and what else they may.

        A server takes the first that it has models for. They differ in the decoder, and of live
        audio in the mode: None if the client leaves neither open. Values are read once, and each of
        the others is made when it is taken. Raise an OptionError as `parse`.
        """
        sent = _read(parameters)
        best = cls._best(sent, live=live)
        others: list[Mapping[str, Any]] = []
        if "decoder" not in sent:
            others += (
                {"decoder": name}
                for name in default_decoders(best.value)
                if name != best.decoder and (best.mode != "streaming" or decoders()[name].live)
            )
        if best.mode == "two_pass" and sent.get("mode", "auto") == "auto":
            others.append({"mode": "streaming"})

        def made() -> Iterator[RecognitionOptions]:
            for other in others:
                with suppress(OptionError):
                    yield cls._meant({**sent, **other}, live=live)

        return best, made() if others else None

    def of(self, options_class: type[Options]) -> Options:
        """Return the options of one family, by its dataclass."""
        known: type[Any] = options_class
        own = {item.name: getattr(self, item.name, item.default) for item in fields(known)}
        return options_class(**own)

    def value(self, name: str) -> Any:
        """Return the value of an option, or of a property, by its name."""
        return getattr(self, name)

    def takes(self, name: str) -> bool:
        """Return whether the decoder takes an option: of two passes, that of the last."""
        wanted = takers(all_options()[name])
        return not wanted or self.decoder in wanted

    def is_followed(self, item: "Field[Any]") -> bool:
        """Return whether one of the passes has a decoder that takes an option."""
        is_first = self.mode == "two_pass" and not self.hears_live
        return self.takes(item.name) or (is_first and is_of_first_pass(item))

    @property
    def hears_live(self) -> bool:
        return bool(decoders()[self.decoder].live)

    @property
    def writes_punctuation(self) -> bool:
        """Whether the decoder's text has punctuation and case."""
        decoder = decoders()[self.decoder]
        return decoder.writes_punctuation or any(map(self.value, decoder.follows))

    @property
    def is_rescored_by_neural(self) -> bool:
        """Whether a neural language model scores the hypotheses; a rescorer that is auto counts."""
        return self.rescore and self.rescorer != "ngram"

    @property
    def opinions(self) -> frozenset[Opinion]:
        """Second scorers of the hypotheses. `rescorer` must not be auto."""
        opinions: set[Opinion] = set()
        if self.rescore:
            assert self.rescorer != "auto"
            opinions.add(self.rescorer)
        if self.ctc_rescore:
            opinions.add("ctc")
        if self.attention_rescore:
            opinions.add("attention")
        return frozenset(opinions)

    @property
    def reads_prompt(self) -> bool:
        """Whether one of the models reads the prompt: Whisper, or the neural rescorer."""
        return decoders()[self.decoder].reads_prompt or self.is_rescored_by_neural

    @property
    def is_rescored(self) -> bool:
        return any(map(self.value, _RESCORING))

    @property
    def rewriters(self) -> tuple[Rewriter, ...]:
        """Text steps after recognition and `replace`, and before `post`, in their order.

        The decoder's own text need not be rewritten as it follows options itself.
        """
        follows = decoders()[self.decoder].follows
        return tuple(
            item for name, item in rewriters().items() if self.value(name) and name not in follows
        )

    @property
    def has_text_steps(self) -> bool:
        return bool(self.replace or self.rewriters or self.post)

    @property
    def weights(self) -> Weights:
        """Weight of each opinion in rescoring: tuned values where none was sent."""
        # Of two passes, the search of the first one may have fusion too.
        has_fusion = self.lm_fusion and self.takes("lm_fusion")
        sent = {
            "lm": self.lm_weight if self.rescore else None,
            "ctc": self.ctc_weight,
            "attention": self.attention_weight,
            # A search with a language model has added it.
            "word_bonus": None if has_fusion else self.word_bonus,
        }
        return _chosen(tuned_weights(self.decoder, self.opinions), sent)

    @property
    def fusion_weights(self) -> Weights:
        """Weights of the language model in the search: tuned values where none was sent."""
        sent = {"lm": self.lm_weight, "word_bonus": self.word_bonus}
        return _chosen(fusion_weights(self.decoder), sent)

    def by(self, decoder: str) -> "RecognitionOptions":
        """Return the options for another decoder, whose texts nothing scores again."""
        beam_size = _defaults(decoder, nbest=self.nbest)["beam_size"]
        options = replace(self, **_UNRESCORED, decoder=decoder, beam_size=beam_size)
        sent = {"names": self.names, "decoder": decoder}
        return replace(options, prompt=self.prompt or _of_names(sent).get("prompt", ""))

    def of_first_pass(self) -> "RecognitionOptions":
        """Return the options of the live search: of two passes, those of the first."""
        if self.mode != "two_pass":
            return self
        first = replace(self, **_UNRESCORED, nbest=1, lattice=False)
        if self.hears_live:
            return first
        first = replace(first, decoder=_live_decoder({"lm_fusion": self.lm_fusion}))
        # A beam of the default size of the second pass was most likely not sent.
        if self.beam_size != _defaults(self.decoder, self.is_rescored, self.nbest)["beam_size"]:
            return first
        return replace(first, beam_size=_defaults(first.decoder)["beam_size"])


RULES: tuple[Rule, ...] = (
    Rule(
        {"channels": Other("mix"), "mode": Other("offline")},
        "option 'channels' is for recordings, a stream is mono; sent: {channels}",
    ),
    Rule(
        {"accuracy": Other("fast"), "mode": "streaming"},
        "option 'accuracy' takes fast with mode streaming; sent: {accuracy}; mode two_pass gives "
        "live text that is corrected at each pause",
    ),
    Rule(
        {"hears_live": False, "mode": "streaming"},
        f"option 'decoder' takes {_HEARING} with mode streaming; sent: {{decoder}}",
    ),
    Rule(
        {"endpointing": False, "mode": "two_pass"},
        "option 'endpointing' cannot be false with mode two_pass: it passes utterances",
    ),
    Rule(
        {"nbest": Above("beam_size")},
        "option 'nbest' takes at most beam_size ({beam_size}); sent: {nbest}; raise beam_size to "
        "get more hypotheses",
    ),
)
"""Rules on the options above. The rules of families stand next to their options."""


def all_options() -> Mapping[str, "Field[Any]"]:
    """Return the fields of all options by name: first those of every path, then by family."""
    return _all_options(all_families())


def is_of_first_pass(item: "Field[Any]") -> bool:
    """Return whether a decoder that hears live audio takes an option, of text that is not final."""
    hears = any(decoders()[name].live for name in takers(item))
    return hears and not item.metadata["is_of_final_text"]


def all_rules() -> tuple[Rule, ...]:
    return (*RULES, *(rule for family in all_families() for rule in family.rules))


@lru_cache(maxsize=8)
def _all_options(families: tuple[Family, ...]) -> Mapping[str, "Field[Any]"]:
    classes = (RecognitionOptions, _class_of(families))
    by_name = {item.name: item for cls in classes for item in fields(cls) if item.metadata}
    own = {*RecognitionOptions.__annotations__}
    return {name: by_name[name] for name in sorted(by_name, key=lambda name: name not in own)}


@lru_cache(maxsize=8)
def _class_of(families: tuple[Family, ...]) -> type[RecognitionOptions]:
    """Return the class of the options of families: RecognitionOptions if it has all of them."""
    classes = (family.options for family in families if family.options)
    further = tuple(cls for cls in classes if not issubclass(RecognitionOptions, cls))
    if not further:
        return RecognitionOptions
    combined = type(RecognitionOptions.__name__, (RecognitionOptions, *further), {})
    return dataclass(frozen=True, kw_only=True)(combined)


def _read(parameters: Mapping[str, Any]) -> dict[str, Any]:
    sent = checked(all_options(), parameters)
    if "language" in sent:
        sent["language"] = code_of(sent["language"])
    if "known_speakers" in sent:
        sent["known_speakers"] = KnownSpeakers(sent["known_speakers"])
    return sent


def _preset(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that the preset of `accuracy` sets for the decoder that was sent."""
    preset = decoders()[sent["decoder"]].presets.get(sent.get("accuracy", "fast"), {})
    if sent.get("rescore"):  # it does not go with fusion
        preset = {name: value for name, value in preset.items() if name != "lm_fusion"}
    return preset


def _of_names(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `names` sets: hotwords, and text before each segment for who reads it."""
    weight = sent.get("hotword_weight", RecognitionOptions.hotword_weight)
    names = hotwords_of(sent.get("names", ""), weight, "names")
    if not names:
        return {}
    prompt = prompt_of(names) if decoders()[sent["decoder"]].reads_prompt else ""
    return {"hotwords": sent["names"], "prompt": prompt}


def _live_mode(sent: Mapping[str, Any]) -> Literal["streaming", "two_pass"]:
    """Return the default mode of live audio: two_pass, unless an option would get lost by it."""
    live = decoders()[_live_decoder(sent)]
    decoder = sent.get("decoder") or (live.name if live.live_when else _default_decoder(sent))
    is_passed = not decoders()[decoder].live and sent.get("endpointing", True)
    return "two_pass" if is_passed else "streaming"


def _default_decoder(sent: Mapping[str, Any]) -> str:
    """Return the default decoder of recordings, and of the second pass over live audio."""
    return next(default_decoders(lambda name: sent.get(name, all_options()[name].default)))


def _live_decoder(sent: Mapping[str, Any]) -> str:
    hearing = (item for item in decoders().values() if item.live)
    return next(item.name for item in hearing if holds(item.live_when, sent.get))


def _chosen(tuned: Weights, sent: Mapping[str, float | None]) -> Weights:
    return tuned._replace(**{name: value for name, value in sent.items() if value is not None})


def _defaults(decoder: str, is_rescored: bool = False, nbest: int = 1) -> Mapping[str, Any]:
    """Return the defaults that depend on other options; `otherwise` of their fields says so."""
    declared = decoders()[decoder]
    own = {**declared.defaults, **(declared.rescored if is_rescored else {})}
    beam_size = own.get("beam_size", RecognitionOptions.beam_size)
    return {**own, "beam_size": max(beam_size, nbest)}
