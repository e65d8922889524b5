"""The options of one request: every default, range and meaning, in one frozen dataclass.

A request carries its options as Triton request parameters. An unknown name, a wrong type or a
value out of range raises an `OptionError`. The error names the option, its range and the value
that was sent.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin

from conch.wire.errors import OptionError
from conch.wire.hotwords import hotwords_of
from conch.wire.languages import code_of
from conch.wire.limits import MAX_HOTWORD_TEXT, MAX_PARAMETERS, MAX_TEXT, MAX_WHISPER_BEAM, clipped
from conch.wire.presets import preset
from conch.wire.replacements import read_replacements
from conch.wire.text_steps import post_models
from conch.wire.weights import FUSION_WEIGHTS, Opinion, Weights, tuned_weights

MAX_PROMPT = 400
"""Characters of a prompt. The language model reads 192 tokens of context (`max_context_tokens`)."""
_TUNED = "tuned for each decoder and what rescores it"


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    otherwise: str = "",
    decoders: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field with the metadata for `parse`, `--help` and docs/guide/options.md.

    Args:
        default: Value if the option is not sent; None if other options decide.
        help: Meaning, in one line.
        low: Smallest number.
        high: Largest number.
        otherwise: What other options make of the default, in words.
        decoders: Decoders that take the option; empty for all.
    """
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "otherwise": otherwise,
        "decoders": decoders,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionOptions:
    """The options of one request, with their defaults."""

    mode: Literal["auto", "offline", "streaming", "two_pass"] = option(
        "auto",
        "the path; auto is offline for a recording and two_pass for live audio; live audio is "
        "streaming with decoder ctc or wfst, lm_fusion, without endpointing, and on a server "
        "without Whisper",
    )
    decoder: Literal["attention", "ctc", "wfst"] = option(
        "attention",
        "what writes the text: Whisper, a beam search over CTC, or CTC in a graph of known words; "
        "live text comes from wfst, and from ctc with lm_fusion",
    )
    channels: Literal["mix", "split"] | int = option(
        "mix",
        "of a recording: mix all channels into one, transcribe each by itself (at most 8), or "
        "take one by its number",
        low=1,
        high=64,
    )
    language: str = option("auto", "language of the speech: en, de-AT, german; auto detects it")
    languages: str = option(
        "",
        "languages with commas (en,de): with language=auto, Whisper chooses among these",
        decoders=("attention",),
    )
    task: Literal["transcribe", "translate"] = option(
        "transcribe",
        "what Whisper writes: what was said, or its translation into English; translate goes with "
        "decoder attention and a multilingual Whisper, without rescoring and coverage",
    )
    accuracy: Literal["fast", "balanced", "best"] = option(
        "fast",
        "how much is spent on fewer errors: balanced and best set the options of rescoring that "
        "are not sent",
    )
    beam_size: int = option(
        5,
        "hypotheses that the search keeps, at most 32 with attention or attention_rescore; with "
        "wfst those to rescore",
        low=1,
        high=128,
        otherwise="10 if they are rescored; with ctc or wfst 16",
    )
    nbest: int = option(1, "hypotheses to return, best first; at most beam_size", low=1, high=128)
    lm_fusion: bool = option(
        False,
        "the language model takes part in the search (shallow fusion)",
        decoders=("ctc",),
    )
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
    lm_context: bool = option(
        False, "the neural rescorer reads the text before; segments then wait for one another"
    )
    prompt: str = option(
        "",
        "text that Whisper and the neural rescorer read before each segment: what the audio is "
        "about, names as they are spelled; at most 400 characters",
    )
    ctc_rescore: bool = option(
        False, "score the hypotheses again with the CTC model", decoders=("attention",)
    )
    ctc_weight: float | None = option(
        None,
        "weight of the CTC model's score, with ctc_rescore",
        low=0,
        high=10,
        otherwise=_TUNED,
    )
    attention_rescore: bool = option(
        False, "score the hypotheses again with Whisper's decoder", decoders=("ctc", "wfst")
    )
    attention_weight: float | None = option(
        None,
        "weight of the attention decoder's score, with attention_rescore",
        low=0,
        high=10,
        otherwise=_TUNED,
    )
    rescore_margin: float = option(
        3.0,
        "rescore the hypotheses within this many nats of the best, and at least the nbest first",
        low=0,
        high=1000,
        otherwise="with ctc or wfst 8.0",
    )
    hotwords: str = option(
        "",
        "phrases to prefer, separated by commas, each with or without a weight: Conch:8, Triton",
    )
    hotword_weight: float = option(
        8.0,
        "weight of a hotword without its own, for a phrase of ten letters: shorter ones get their "
        "share of it; a higher one finds more, and invents more",
        low=0,
        high=100,
    )
    replace: str = option(
        "",
        "rules from heard to written forms, separated by semicolons: conch=>Conch; new york "
        "city=>NYC; of live audio the final text",
    )
    punctuate: bool = option(
        False,
        "punctuation and case for the text of the CTC models; Whisper's own text has them, and is "
        "left as it is",
    )
    itn: bool = option(
        False,
        "inverse text normalisation: numbers, dates and amounts in digits, $21.50 for twenty one "
        "dollars fifty",
    )
    post: str = option(
        "",
        "models on the server that rewrite the text at the end, separated by commas, at most 8, in "
        "this order",
    )
    word_timestamps: bool = option(False, "start, end and confidence of every word")
    lattice: bool = option(
        False,
        "the texts near the best one as a graph, in Kaldi's text form, for each segment; of "
        "recordings, and of the second pass with mode two_pass",
        decoders=("wfst",),
    )
    vad: bool = option(
        True,
        "find the speech first; without it, all of a recording is decoded, and the letters of the "
        "CTC model tell where a live speaker pauses",
    )
    vad_threshold: float = option(
        0.5, "speech probability at which a stretch of speech begins", low=0.01, high=0.99
    )
    vad_min_speech_ms: int = option(
        100, "shorter stretches of speech are dropped", low=0, high=10_000
    )
    vad_min_silence_ms: int = option(
        500, "silence that ends a stretch of speech", low=32, high=10_000
    )
    vad_pad_ms: int = option(300, "audio kept on each side of the speech", low=0, high=2_000)
    vad_state: str = option(
        "",
        "of a piece of a longer recording: the memory of the VAD at its start, base64, which conch "
        "bulk sends; so the piece is segmented as in the whole",
    )
    coverage: bool = option(
        True,
        "with attention, and task transcribe: find speech that the text leaves out, and decode it "
        "again",
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
        "live, two_pass with attention: audio between two passes of Whisper over an utterance that "
        "is being spoken; 0 is none before it pauses",
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
        "live: seconds of ended utterances that the server keeps, 0 for all; the final answer has "
        "them, and every answer with repeat_text or the output TRANSCRIPTS has their text",
        low=0,
        high=86_400,
    )
    repeat_text: bool = option(
        False,
        "live: the text of each answer repeats that of history_s; otherwise it begins with the "
        "first utterance that is new, or that may still change",
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
        5000, "live, rule no_speech: silence before anybody speaks", low=500, high=60_000
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

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], *, live: bool = False) -> "RecognitionOptions":
        """Build options from request parameters.

        Args:
            parameters: The options that were sent, by name.
            live: Whether they belong to the first chunk of a live stream, not to a recording.

        Raises:
            OptionError: an unknown name, a wrong type, a value out of range, or two options
                that contradict each other.
        """
        known = {item.name: item for item in fields(cls)}
        if len(parameters) > MAX_PARAMETERS:
            raise OptionError(
                f"a request takes at most {MAX_PARAMETERS} options; sent: {len(parameters)}"
            )
        for name in parameters:
            if name not in known:
                raise OptionError(unknown_name(name, list(known)))
        sent = {name: _checked(known[name], value) for name, value in parameters.items()}
        if "language" in sent:
            sent["language"] = code_of(sent["language"])
        if sent.get("mode", "auto") == "auto":
            sent["mode"] = _live_mode(sent) if live else "offline"
        if live != (sent["mode"] in ("streaming", "two_pass")):
            what = "a stream's chunks" if live else "a request without a sequence id"
            raise OptionError(f"option 'mode' of {what} cannot be {sent['mode']}")
        if sent["mode"] == "streaming":
            sent.setdefault("decoder", _live_decoder(sent))
        sent.setdefault("decoder", cls().decoder)
        chosen = {**preset(sent), **sent}
        options = cls(**chosen)
        own = _defaults_of(options).items()
        options = replace(options, **{key: value for key, value in own if key not in chosen})
        for name, item in known.items():
            if getattr(options, name) and not options.is_followed(name, item.metadata["decoders"]):
                wanted = " or ".join(item.metadata["decoders"])
                raise OptionError(
                    f"option '{name}' goes with decoder {wanted}; decoder is {options.decoder}"
                )
        hotwords_of(options.hotwords, options.hotword_weight)  # refused, if it cannot be read
        if problem := options._contradiction():
            raise OptionError(problem)
        if options.task == "translate":
            # It compares the text with the audio, by the CTC model and by the length of words.
            options = replace(options, coverage=False)
        return options

    def is_followed(self, name: str, decoders: tuple[str, ...]) -> bool:
        """Return whether one of the passes uses an option of these decoders."""
        if not decoders or self.decoder in decoders:
            return True
        # If the second pass uses attention, the first one uses ctc or wfst.
        is_first = self.mode == "two_pass" and self.decoder == "attention"
        return is_first and name not in ("attention_rescore", "lattice")

    def _contradiction(self) -> str | None:
        """Return the error message for two options that exclude each other, or None.

        Raises:
            OptionError: the rules of `replace` or the names of `post` do not parse.
        """
        if self.channels != "mix" and self.mode != "offline":
            return f"option 'channels' is for recordings, a stream is mono; sent: {self.channels}"
        if self.accuracy != "fast" and self.mode == "streaming":
            return (
                f"option 'accuracy' takes fast with mode streaming; sent: {self.accuracy}; mode "
                "two_pass gives live text that is corrected at each pause"
            )
        if self.mode == "streaming" and self.decoder == "attention":
            return "option 'decoder' takes ctc or wfst with mode streaming; sent: attention"
        if self.mode == "streaming" and self.attention_rescore:
            return "option 'attention_rescore' goes with mode two_pass, not streaming"
        if self.mode == "streaming" and self.lattice:
            return (
                "option 'lattice' goes with recordings and mode two_pass, not streaming: there the "
                "words are told before an utterance ends"
            )
        if self.mode == "two_pass" and not self.endpointing:
            return "option 'endpointing' cannot be false with mode two_pass: it passes utterances"
        if self.rescore and self.decoder == "ctc" and self.lm_fusion:
            return (
                "option 'rescore' is for texts that the language model has not seen yet; with "
                "lm_fusion it has"
            )
        if self.rescore and self.decoder == "wfst" and self.mode == "streaming":
            return (
                "option 'rescore' with decoder wfst goes with mode two_pass, not streaming: there "
                "the words are told as stable before an utterance can be rescored"
            )
        is_neural = self.rescore and self.rescorer != "ngram"
        if self.prompt and not self.reads_prompt:
            return (
                "option 'prompt' goes with decoder attention, or with rescore=true and rescorer "
                f"auto or neural; decoder is {self.decoder}"
            )
        if self.lm_context and not is_neural:
            return (
                "option 'lm_context' goes with rescore=true and rescorer auto or neural, which "
                "accuracy=balanced and best set with decoder attention and wfst"
            )
        if len(self.prompt) > MAX_PROMPT:
            return (
                f"option 'prompt' takes at most {MAX_PROMPT} characters; sent: {len(self.prompt)}"
            )
        if self.languages and self.language != "auto":
            return (
                "option 'languages' goes with language=auto, which chooses among them; "
                f"language is {self.language!r:.40}"
            )
        if self.task == "translate" and (problem := self._against_translation()):
            return problem
        is_whispers = self.decoder == "attention" or self.attention_rescore
        if is_whispers and self.beam_size > MAX_WHISPER_BEAM:
            whispers = "decoder attention" if self.decoder == "attention" else "attention_rescore"
            return (
                f"option 'beam_size' takes at most {MAX_WHISPER_BEAM} with {whispers}; "
                f"sent: {self.beam_size}"
            )
        if self.nbest > self.beam_size:
            return (
                f"option 'nbest' takes at most beam_size ({self.beam_size}); "
                f"sent: {self.nbest}; raise beam_size to get more hypotheses"
            )
        read_replacements(self.replace)
        post_models(self.post)
        if self.vad_state and (self.mode != "offline" or not self.vad or self.channels != "mix"):
            return (
                "option 'vad_state' is for a piece of a recording: it goes with vad=true and "
                "channels=mix, and not with live audio"
            )
        if self.vad and self.max_segment_s < 4 * self.vad_pad_ms / 1000:
            return (
                "option 'max_segment_s' takes at least four times vad_pad_ms "
                f"({self.vad_pad_ms} ms); sent: {self.max_segment_s:g}"
            )
        return None

    def _against_translation(self) -> str | None:
        """Return the error message for an option that excludes a translation, or None."""
        if self.decoder != "attention":
            return (
                "option 'task' takes transcribe with decoder ctc and wfst: Whisper translates; "
                "sent: translate"
            )
        if self.accuracy != "fast":
            return (
                "option 'accuracy' takes fast with task=translate, whose text no other model can "
                f"score; sent: {self.accuracy}"
            )
        for name in ("rescore", "ctc_rescore"):
            if getattr(self, name):
                return (
                    f"option '{name}' goes with task=transcribe: a translation is not what was "
                    "said, and no other model can score it"
                )
        return None

    @property
    def opinions(self) -> frozenset[Opinion]:
        """What scores the hypotheses again. `rescorer` must not be auto."""
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
        return self.decoder == "attention" or (self.rescore and self.rescorer != "ngram")

    @property
    def is_rescored(self) -> bool:
        """Whether anything scores the hypotheses again."""
        return self.rescore or self.ctc_rescore or self.attention_rescore

    @property
    def has_text_steps(self) -> bool:
        """Whether anything works on the text after recognition."""
        return bool(self.replace or self.punctuate or self.itn or self.post)

    @property
    def weights(self) -> Weights:
        """What each opinion counts in rescoring: tuned values where none was sent."""
        # Of two passes, the search of the first one may have fusion too.
        has_fusion = self.lm_fusion and self.decoder == "ctc"
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
        """What the language model counts in the search: tuned values where none was sent."""
        return _chosen(FUSION_WEIGHTS, {"lm": self.lm_weight, "word_bonus": self.word_bonus})

    def of_first_pass(self) -> "RecognitionOptions":
        """Return the options of the live search: of two passes, those of the first."""
        if self.mode != "two_pass":
            return self
        first = replace(self, rescore=False, ctc_rescore=False, attention_rescore=False, nbest=1)
        first = replace(first, lattice=False)
        if self.decoder != "attention":
            return first
        first = replace(first, decoder=_live_decoder({"lm_fusion": self.lm_fusion}))
        # A beam of attention's default size was most likely not sent.
        is_chosen = self.beam_size != _defaults_of(self)["beam_size"]
        return first if is_chosen else replace(first, beam_size=_defaults_of(first)["beam_size"])


def _live_mode(sent: Mapping[str, Any]) -> Literal["streaming", "two_pass"]:
    """Return the default mode of live audio: two_pass, unless an option would get lost by it."""
    decoder = sent.get("decoder", _live_decoder(sent) if sent.get("lm_fusion") else "attention")
    is_passed = decoder == "attention" and sent.get("endpointing", True)
    return "two_pass" if is_passed else "streaming"


def _live_decoder(sent: Mapping[str, Any]) -> Literal["ctc", "wfst"]:
    """Return the default decoder of live audio: wfst, or ctc, which alone has fusion."""
    return "ctc" if sent.get("lm_fusion") else "wfst"


def _chosen(tuned: Weights, sent: Mapping[str, float | None]) -> Weights:
    return tuned._replace(**{name: value for name, value in sent.items() if value is not None})


def _defaults_of(options: RecognitionOptions) -> dict[str, Any]:
    """Return the defaults that depend on other options; `otherwise` of their fields tells them."""
    if options.decoder != "attention":
        return {"beam_size": 16, "rescore_margin": 8.0}
    return {"beam_size": 10 if options.is_rescored else 5, "rescore_margin": 3.0}


def describe(item: "Field[Any]") -> str:
    """Return the type and range of an option in words, for error messages and `--help`."""
    names = {bool: "a bool (true or false)", int: "an integer", float: "a number", str: "a string"}
    words, kind = words_of(item), kind_of(item)
    if kind is None:
        return "one of " + ", ".join(words)
    low, high = item.metadata["low"], item.metadata["high"]
    text = names[kind] if low is None else f"{names[kind]} from {low:.10g} to {high:.10g}"
    return ", ".join(words) + f" or {text}" if words else text


def words_of(item: "Field[Any]") -> tuple[str, ...]:
    """Return the words that an option takes; empty if it takes any value of its type."""
    kinds = (item.type, *get_args(item.type))
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def kind_of(item: "Field[Any]") -> type | None:
    """Return the type of the values that an option takes beside words, or None."""
    kinds = (item.type, *get_args(item.type))
    return next((kind for kind in kinds if isinstance(kind, type)), None)


def default_of(item: "Field[Any]") -> str:
    """Return the default of an option in words, for `--help` and docs/guide/options.md."""
    otherwise: str = item.metadata["otherwise"]
    if item.default is None:
        return otherwise
    default = str(item.default).lower() if isinstance(item.default, bool) else str(item.default)
    return "; ".join(filter(None, (default or "none", otherwise)))


def unknown_name(name: str, known: Sequence[str]) -> str:
    """Return the error message for an option that does not exist, with the closest that does."""
    name = clipped(name)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else f"; the options are {', '.join(known)}"
    return f"unknown option '{name}'{hint}"


def _checked(item: "Field[Any]", value: Any) -> Any:
    most = MAX_HOTWORD_TEXT if item.name == "hotwords" else MAX_TEXT
    if isinstance(value, str) and len(value) > most:
        raise OptionError(
            f"option '{item.name}' takes at most {most} characters; sent: {len(value)}"
        )
    if words_of(item) and kind_of(item) is int and isinstance(value, str):
        # Command lines and HTTP headers send numbers as text.
        value = int(value) if value.isdecimal() and len(value) < 10 else value
    if not _fits(item, value):
        raise OptionError(f"option '{item.name}' takes {describe(item)}; sent: {value!r:.80}")
    return float(value) if kind_of(item) is float else value


def _fits(item: "Field[Any]", value: Any) -> bool:
    kind = kind_of(item)
    if isinstance(value, str) and value in words_of(item):
        return True
    if kind is None:
        return False
    if kind in (bool, str):
        return isinstance(value, kind)
    # In Python bool is an int, but nbest=true is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind is int and not isinstance(value, int):
        return False
    low, high = item.metadata["low"], item.metadata["high"]
    return math.isfinite(value) and low <= value <= high
