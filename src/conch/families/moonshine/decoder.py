"""The `moonshine_decoder` component: n-best texts, scores or word times."""

import math
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import decoders

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row, count_of
from conch.component.in_flight import InFlight, Reason, Search
from conch.component.parameters import be_nice
from conch.families.attention.tensors import hidden_states, nbest_outputs, words_outputs
from conch.families.attention.word_times import split_words, time_words, warped
from conch.families.moonshine import END, MAX_BEAM, MAX_TOKENS, START, STEP_FILES
from conch.families.moonshine.network import (
    FRAME_SAMPLES,
    MAX_S,
    Advance,
    DecoderStep,
    Hypotheses,
    MoonshineConfig,
    MoonshineDecoder,
)
from conch.families.moonshine.search import Searched, Token, beam_search, greedy_search
from conch.families.moonshine.weights import TOKENIZER_FILE, moonshine_folder
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError
from conch.wire.joining import compression_ratio
from conch.wire.languages import codes_of
from conch.wire.result import Word

_SIZE = 32768
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
AHEAD_FRAMES = 3
"""Lead of the attention to a word over its times by Whisper and by the CTC model
(median of 1171 words of dev: 84 and 100 ms for starts, 100 and -4 ms for ends)."""
RUN = 3
"""Tokens of a run that ends the text of an open window if it comes three times: Moonshine often
repeats itself behind a word that is cut."""
_MOST_DRAFTED = 16 * MAX_TOKENS
"""Characters of a draft that are read."""
LANGUAGE = "en"
_BEHIND_LATIN = 0x250
"""First character after those of Latin scripts."""
_NOTE = "♪"
_Answer = Search[DecoderStep, Advance, Outputs]


class MoonshineTokens:
    """The tokens of Llama 2, with English alone in use."""

    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing more precise
            raise ConfigError(f"{path} is no tokenizer: {error}") from error
        if (size := self._tokenizer.get_vocab_size()) != _SIZE:
            raise ConfigError(f"{path} is not Moonshine's: it has {size} tokens, not {_SIZE}")
        # A text with </s> in it has no end there.
        self._tokenizer.encode_special_tokens = True
        # That of the file takes the space from the first token, where a word begins.
        self._tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, with a space before a word that they begin with."""
        return str(self._tokenizer.decode(list(ids)))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without start and end."""
        return list(self._tokenizer.encode(text.strip(), add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoonshineDecoderConfig(MoonshineConfig):
    intra_threads: int = 1  # one thread: the products of a call are small
    # Found on short utterances with silence or noise around them: docs/notes/moonshine.md.
    least_log_prob: float = -2.0
    nothing_log_prob: float = -0.01
    compression_ratio_threshold: float = 2.4
    no_repeat_ngram_size: int = 3


@dataclass(frozen=True, slots=True)
class _DecodeRequest:
    hidden: FloatArray
    beam_size: int
    nbest: int
    align: bool
    said: list[int] | None
    """Tokens with which the text of an open window begins; None for a whole segment."""
    draft: list[int]
    """Tokens that probably follow `said`; only a greedy search takes them."""
    aligned: list[int] | None
    """Tokens of a text whose words' times are wanted."""
    scored: list[list[int]] | None
    """Tokens of each text whose score is wanted."""


class DecoderComponent:
    """Decodes, aligns or scores segments; an answer ignores other segments, to the last bit."""

    def __init__(self, config: MoonshineDecoderConfig) -> None:
        be_nice(config.nice)
        folder = moonshine_folder(config.model)
        self._config = config
        self._model = MoonshineDecoder(folder, config.threads)
        self.tokens = MoonshineTokens(folder / TOKENIZER_FILE)
        self._in_flight = InFlight(self._model.advance, max(STEP_FILES.values()))

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows; one with `text` is aligned, one with `texts` is scored."""
        started = [self.start(row, lambda: None) for row in rows]
        return [outputs.result() for outputs in started]

    def start(self, row: Row, reason: Reason, /) -> "Future[Outputs]":
        request = self._request(row)
        if error := reason():
            raise error
        # Here, so that the others' next step does not wait for it.
        hypotheses = self._model.begin(request.hidden)
        if request.aligned is not None:
            search = self._aligned(hypotheses, len(request.hidden), request.aligned)
        elif request.scored is not None:
            search = self._scored(hypotheses, request.scored)
        else:
            search = self._decoded(hypotheses, request)
        return self._in_flight.start(search, reason)

    def close(self) -> None:
        """Answer the rows that have started, and stop the threads."""
        self._in_flight.close()

    def _decoded(self, hypotheses: Hypotheses, request: _DecodeRequest) -> _Answer:
        result = yield from self._searched(hypotheses, request)
        return partial(self._nbest, request, result)

    def _nbest(self, request: _DecodeRequest, result: Searched) -> Outputs:
        best = result.ended[0]
        if result.wanted_nothing is not None and not self._is_speech(best, result.wanted_nothing):
            nothing = nbest_outputs([("", result.wanted_nothing)], LANGUAGE, math.nan)
            return nothing | words_outputs([])
        scored: dict[str, float] = {}
        for token in result.ended[: request.beam_size]:
            # Of two tokenisations of the same text, keep the better one.
            scored.setdefault(self._text(token), token.average * best.length)
        words = self._words(list(best), len(request.hidden)) if request.align else []
        nbest = [*scored.items()][: request.nbest]
        return nbest_outputs(nbest, LANGUAGE, math.nan) | words_outputs(words)

    def _is_speech(self, best: Token, nothing: float) -> bool:
        """Return whether a text was said, although the model would rather write none.

        Noise becomes an improbable text, and digital silence one of notes or in another script,
        which is probable.
        """
        config, text = self._config, self._text(best)
        letters = [char for char in text if char.isalnum()]
        is_latin = bool(letters) and all(ord(char) < _BEHIND_LATIN for char in letters)
        is_probable = best.average >= config.least_log_prob and nothing <= config.nothing_log_prob
        return is_latin and is_probable and _NOTE not in text

    def _searched(
        self, hypotheses: Hypotheses, request: _DecodeRequest
    ) -> Generator[DecoderStep, Advance, Searched]:
        config, beam_size, seconds = self._config, request.beam_size, len(request.hidden) * FRAME_S
        if request.said is not None:
            return (yield from greedy_search(hypotheses, seconds, request.draft, request.said, RUN))
        if beam_size == 1:
            result = yield from greedy_search(hypotheses, seconds, request.draft)
        else:
            result = yield from beam_search(hypotheses, beam_size, seconds)
        text = self._text(result.ended[0])
        repeats = compression_ratio(text) > config.compression_ratio_threshold > 0
        if repeats and config.no_repeat_ngram_size:
            hypotheses.keep(0)
            result = yield from beam_search(
                hypotheses, beam_size, seconds, config.no_repeat_ngram_size
            )
        return result

    def _text(self, end: Token) -> str:
        return self.tokens.decode([token.id for token in end if token.id != END]).strip()

    def _words(self, tokens: Sequence[Token], num_frames: int) -> list[Word]:
        ids = [token.id for token in tokens if token.id != END]
        probs = [math.exp(token.log_prob) for token in tokens]
        attentions = [token.attention for token in tokens]
        if len(ids) == len(tokens):
            # The text was cut before its end, which is where the audio ends.
            attentions.append(np.eye(1, num_frames, num_frames - 1, dtype=np.float32)[0])
        return self._timed(ids, probs, np.stack(attentions), num_frames)

    def _timed(
        self, ids: list[int], probs: list[float], attention: FloatArray, num_frames: int
    ) -> list[Word]:
        if not ids:
            return []
        words = split_words(ids, self.tokens.decode, spaced=True)
        # The encoder's field reaches ahead: the attention to a word begins before it is spoken.
        path = [(token, min(at + AHEAD_FRAMES, num_frames)) for token, at in warped(attention)]
        return time_words(words, path, probs, num_frames, FRAME_S)

    def _aligned(self, hypotheses: Hypotheses, num_frames: int, ids: list[int]) -> _Answer:
        if not ids:
            return lambda: words_outputs([])
        said = yield DecoderStep(hypotheses, [[START, *ids]], [0], targets=[[*ids, END]])
        probs = np.exp(said.target_log_probs[0]).tolist()
        return lambda: words_outputs(self._timed(ids, probs, said.attention[0], num_frames))

    def _scored(self, hypotheses: Hypotheses, texts: Sequence[list[int]]) -> _Answer:
        """Return the log probability of each text's tokens, or of the end for an empty text."""
        scores = []
        for text in texts:
            ids = text or [END]
            hypotheses.keep(0)
            said = yield DecoderStep(hypotheses, [[START, *ids[:-1]]], [0], targets=[ids])
            scores.append(float(said.target_log_probs.sum()))
        return lambda: {"text_scores": np.array(scores, dtype=np.float32)}

    def _ids(self, text: str) -> list[int]:
        ids = self.tokens.encode(text) if text.strip() else []
        if len(ids) >= MAX_TOKENS:
            raise InvalidRequestError(
                f"a text that is given must have at most {MAX_TOKENS - 1} tokens; sent: {len(ids)}"
            )
        return ids

    def _request(self, row: Row) -> _DecodeRequest:
        hidden, num_frames = hidden_states(row, self._model.size, FRAME_S, MAX_S)
        _check_language(row)
        return _DecodeRequest(
            hidden[:num_frames],
            count_of(row.parameters, "beam_size", 5, MAX_BEAM),
            count_of(row.parameters, "nbest", 1, MAX_BEAM),
            bool(row.parameters.get("align", False)),
            self._ids(str(row.parameters["said"])) if "said" in row.parameters else None,
            self.tokens.encode(str(row.parameters.get("draft", ""))[:_MOST_DRAFTED]),
            self._ids(row.texts("text", 1)[0]) if "text" in row.inputs else None,
            [*map(self._ids, row.texts("texts", MAX_BEAM))] if "texts" in row.inputs else None,
        )


def _check_language(row: Row) -> None:
    parameters = row.parameters
    codes = codes_of(str(parameters.get("languages", ""))) or (LANGUAGE,)
    for name, value, takes in (
        ("language", parameters.get("language", "auto"), ("auto", LANGUAGE)),
        ("languages", ",".join(codes), (LANGUAGE,)),
        ("task", parameters.get("task", "transcribe"), ("transcribe",)),
        ("prompt", parameters.get("prompt", ""), ("",)),
    ):
        if value not in takes:
            words = " or ".join(item or "no text" for item in takes)
            raise OptionError(f"option '{name}' takes {words} with Moonshine; sent: {value!r:.40}")
