"""The `attention_decoder` component: n-best texts, scores or word times by Whisper's decoder."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ctranslate2
import numpy as np

from conch.component import FloatArray, Outputs, Row, count_of
from conch.component.ctranslate import CTranslate2Config
from conch.families.attention.tensors import hidden_states, nbest_outputs, words_outputs
from conch.families.attention.word_times import split_words, time_words
from conch.families.whisper import MAX_BEAM
from conch.families.whisper.config import (
    ENCODER_FRAME_S,
    WINDOW_S,
    encode_silence,
    load_whisper,
    model_folder,
)
from conch.families.whisper.tokens import WhisperTokens
from conch.wire.errors import InvalidRequestError
from conch.wire.joining import compression_ratio
from conch.wire.languages import codes_of
from conch.wire.result import Word

MAX_POSITIONS = 448
"""Positions of Whisper's decoder; CTranslate2 gives half of them to a text."""
# With eight prompts and 30 utterances of dev, tiny.en and base: of 172 texts of silence, noise and
# hum that a prompt changed, these two refuse all, and of 540 texts of speech two.
PROMPTED_NO_SPEECH = 0.25
"""Probability of no speech above which a text is decoded again without its prompt."""
PROMPTED_LOG_PROB = -1.5
"""Natural log probability per token, without the prompt, below which the text is too."""


@dataclass(frozen=True, slots=True)
class DecodedTexts:
    texts: list[str]
    """Different texts, best first, at least one."""
    scores: list[float]
    """Score of the best text: the sum of the natural log probabilities of its tokens and of the end
    of text. Score of another text: its average per token, times the tokens of the best text."""
    average_log_prob: float
    """Natural log probability per token of the best text."""
    no_speech_prob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperDecoderConfig(CTranslate2Config):
    intra_threads: int = 1  # one thread: the products of a call are small
    # Thresholds against invented texts (Radford et al., 2022, 4.5).
    no_speech_threshold: float = 0.6
    log_prob_threshold: float = -1.0
    compression_ratio_threshold: float = 2.4
    # Of 2 to 8, 3 gave the fewest errors for texts that repeat themselves because of short windows:
    # 0.6 errors per word, instead of 13. 0 is for never again.
    no_repeat_ngram_size: int = 3


@dataclass(frozen=True, slots=True)
class _DecodeRequest:
    encoder_out: FloatArray
    num_frames: int
    choice: tuple[str, ...]
    """Languages to choose from; one that needs no detection, or none for all."""
    task: str
    beam_size: int
    nbest: int
    before: list[int]
    align: bool
    aligned_text: str | None
    scored_texts: list[str] | None


@dataclass(frozen=True, slots=True)
class _DetectedLanguage:
    language: str
    probability: float
    """NaN if there was nothing to detect."""


class WhisperDecoder:
    """The `attention_decoder` component: decodes hidden states, or aligns or scores texts."""

    def __init__(self, config: WhisperDecoderConfig) -> None:
        self._model = load_whisper(config)
        self._config = config
        self.tokens = WhisperTokens(
            model_folder(config.model), multilingual=self._model.is_multilingual
        )
        self._model_size: int = encode_silence(self._model).shape[-1]

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `encoder_out`, `encoder_out_lens` and optional texts.

        A row with `text` is aligned, and one with `texts` is scored. Rows to decode with the same
        window, beam size and length of the prompt share a search: CTranslate2 wants the start of
        all transcripts at one position.
        """
        requests = [self._request(row) for row in rows]
        answers: dict[int, Outputs] = {}
        searches: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            if request.aligned_text is not None:
                words = self._align(request, request.aligned_text, self._language(request))
                answers[index] = words_outputs(words)
            elif request.scored_texts is not None:
                language = self._language(request) if request.scored_texts else ""
                scores = [self._score(request, text, language) for text in request.scored_texts]
                answers[index] = {"text_scores": np.array(scores, dtype=np.float32)}
            else:
                alike = len(request.encoder_out), request.beam_size, len(request.before)
                searches[alike].append(index)
        for (_, beam_size, _), group in searches.items():
            outputs = self._search([requests[index] for index in group], beam_size)
            answers.update(zip(group, outputs, strict=True))
        return [answers[index] for index in range(len(rows))]

    def _search(self, requests: Sequence[_DecodeRequest], beam_size: int) -> list[Outputs]:
        encoder_out = np.stack([request.encoder_out for request in requests])
        spoken = self._spoken(encoder_out, [request.choice for request in requests])
        answers: list[Outputs] = []
        results = self._decoded(requests, encoder_out, spoken, beam_size)
        for request, detected, decoded in zip(requests, spoken, results, strict=True):
            words = (
                self._align(request, decoded.texts[0], detected.language) if request.align else []
            )
            nbest = list(zip(decoded.texts, decoded.scores, strict=True))[: request.nbest]
            answers.append(
                nbest_outputs(nbest, detected.language, detected.probability) | words_outputs(words)
            )
        return answers

    def _decoded(
        self,
        requests: Sequence[_DecodeRequest],
        encoder_out: FloatArray,
        spoken: Sequence[_DetectedLanguage],
        beam_size: int,
    ) -> list[DecodedTexts]:
        """Return the n-best of rows that share a search, without a prompt that was repeated."""

        def searched(rows: Sequence[int], *, has_prompt: bool) -> list[DecodedTexts]:
            prompts = [
                self.tokens.prompt(
                    spoken[row].language,
                    requests[row].before if has_prompt else (),
                    requests[row].task,
                )
                for row in rows
            ]
            taken = encoder_out if len(rows) == len(requests) else encoder_out[rows]
            return self._nbests(taken, prompts, beam_size)

        results = searched(range(len(requests)), has_prompt=True)
        doubtful = [
            row
            for row, request in enumerate(requests)
            if request.before
            and not self._is_from_audio(request, spoken[row].language, results[row])
        ]
        if doubtful:
            again = searched(doubtful, has_prompt=False)
            for row, decoded in zip(doubtful, again, strict=True):
                results[row] = decoded
        return results

    def _nbests(
        self, encoder_out: FloatArray, prompts: Sequence[Sequence[int]], beam_size: int
    ) -> list[DecodedTexts]:
        """Return the n-best texts of each segment: `beam_size` of them, without duplicates.

        A text that repeats itself is decoded again without repeated n-grams. openai-whisper samples
        at a higher temperature instead, which gives a different text each time. An improbable text
        of audio that is probably not speech becomes empty.

        `encoder_out` is float32 `[segments, frames, model size]`. All `prompts`, the tokens that
        each transcript begins with, have its start at one position.
        """

        def searched(rows: Sequence[int], no_repeat_ngram_size: int) -> list[DecodedTexts]:
            results = self._model.generate(
                _view(encoder_out if len(rows) == len(encoder_out) else encoder_out[rows]),
                [prompts[row] for row in rows],
                beam_size=beam_size,
                num_hypotheses=beam_size,
                no_repeat_ngram_size=no_repeat_ngram_size,
                max_length=MAX_POSITIONS,
                return_scores=True,
                return_no_speech_prob=True,
            )
            return [self._texts_of(result) for result in results]

        nbests = searched(range(len(encoder_out)), 0)
        most = self._config.compression_ratio_threshold
        again = [
            row for row, item in enumerate(nbests) if compression_ratio(item.texts[0]) > most > 0
        ]
        if again and self._config.no_repeat_ngram_size:
            retried = searched(again, self._config.no_repeat_ngram_size)
            for row, nbest in zip(again, retried, strict=True):
                nbests[row] = nbest
        return [*map(self._silenced, nbests)]

    def _texts_of(self, result: ctranslate2.models.WhisperGenerationResult) -> DecodedTexts:
        # CTranslate2 divides the sum by the number of tokens without the end of text, although the
        # sum includes it. Its order is kept: by the sum alone, a text that stops at a pause would
        # win over one that continues after it.
        num_tokens = len(result.sequences_ids[0])
        best: dict[str, float] = {}
        for average, ids in zip(result.scores, result.sequences_ids, strict=True):
            # Of two tokenisations of the same text, keep the better one.
            best.setdefault(self.tokens.decode(ids).strip(), average * num_tokens)
        return DecodedTexts(
            texts=list(best),
            scores=list(best.values()),
            average_log_prob=result.scores[0] * num_tokens / (num_tokens + 1),
            no_speech_prob=result.no_speech_prob,
        )

    def _silenced(self, decoded: DecodedTexts) -> DecodedTexts:
        if (
            decoded.no_speech_prob <= self._config.no_speech_threshold
            or decoded.average_log_prob >= self._config.log_prob_threshold
        ):
            return decoded
        return replace(decoded, texts=[""], scores=[float(np.log(decoded.no_speech_prob))])

    def _is_from_audio(self, request: _DecodeRequest, language: str, decoded: DecodedTexts) -> bool:
        """Return whether a text comes from the audio, and not from the prompt alone.

        Where Whisper hears no speech, it goes on with the prompt, or repeats it.
        The other guards do not see that, since such a text is probable after the prompt.
        """
        text = decoded.texts[0]
        if not text:
            return True
        if decoded.no_speech_prob > PROMPTED_NO_SPEECH:
            return False
        num_tokens = len(self.tokens.encode(text, _text_language(request, language)))
        return self._score(request, text, language) >= PROMPTED_LOG_PROB * num_tokens

    def _request(self, row: Row) -> _DecodeRequest:
        encoder_out, num_frames = hidden_states(row, self._model_size, ENCODER_FRAME_S, WINDOW_S)
        task = str(row.parameters.get("task", "transcribe"))
        self.tokens.check_task(task)
        return _DecodeRequest(
            encoder_out=encoder_out,
            num_frames=num_frames,
            choice=self._choice(row),
            task=task,
            beam_size=count_of(row.parameters, "beam_size", 5, MAX_BEAM),
            nbest=count_of(row.parameters, "nbest", 1, MAX_BEAM),
            before=self.tokens.before(str(row.parameters.get("prompt", ""))),
            align=bool(row.parameters.get("align", False)),
            aligned_text=row.texts("text", 1)[0] if "text" in row.inputs else None,
            scored_texts=row.texts("texts", MAX_BEAM) if "texts" in row.inputs else None,
        )

    def _choice(self, row: Row) -> tuple[str, ...]:
        language = str(row.parameters.get("language", "auto"))
        self.tokens.check_language(language)
        choice = codes_of(str(row.parameters.get("languages", "")))
        self.tokens.check_choice(choice)
        if language != "auto":
            return (language,)
        return choice if self.tokens.multilingual else self.tokens.languages

    def _spoken(
        self, encoder_out: FloatArray, choices: Sequence[tuple[str, ...]]
    ) -> list[_DetectedLanguage]:
        """Return the language of each segment; of a choice, probabilities sum to 1."""
        detected = [_DetectedLanguage(choice[0] if choice else "", math.nan) for choice in choices]
        unknown = [index for index, choice in enumerate(choices) if len(choice) != 1]
        if unknown:
            ranked = self._model.detect_language(_view(encoder_out[unknown]))
            for index, candidates in zip(unknown, ranked, strict=True):
                probabilities = {token.strip("<|>"): float(share) for token, share in candidates}
                chosen = {code: probabilities[code] for code in choices[index] or probabilities}
                language = max(chosen, key=lambda code: chosen[code])
                total = sum(chosen.values())
                # Shares of nothing: the model is as sure of none of them.
                share = chosen[language] / total if total > 0 else 1 / len(chosen)
                detected[index] = _DetectedLanguage(language, min(1.0, share))
        return detected

    def _language(self, request: _DecodeRequest) -> str:
        return self._spoken(request.encoder_out[None], [request.choice])[0].language

    def _align(self, request: _DecodeRequest, text: str, language: str) -> list[Word]:
        if not text.strip():
            return []
        text_tokens, result = self._forced(request, text, language)
        spaced = self.tokens.is_spaced(_text_language(request, language))
        words = split_words(text_tokens, self.tokens.decode, spaced=spaced)
        return time_words(
            words, result.alignments, result.text_token_probs, request.num_frames, ENCODER_FRAME_S
        )

    def _score(self, request: _DecodeRequest, text: str, language: str) -> float:
        """Return the natural log probability of a text's tokens, or of the end for an empty text.

        CTranslate2 has no probability of the end after a text.
        """
        if not text.strip():
            prompt = self.tokens.prompt(language, task=request.task)
            [generated] = self._model.generate(
                _view(request.encoder_out[None]),
                [prompt],
                beam_size=1,
                max_length=len(prompt) + 1,
                suppress_blank=False,
                return_logits_vocab=True,
            )
            logits = np.array(generated.logits[0][0], dtype=np.float64).ravel()
            return float(logits[self.tokens.end_of_text] - np.logaddexp.reduce(logits))
        _, result = self._forced(request, text, language)
        return sum(math.log(max(prob, 1e-30)) for prob in result.text_token_probs)

    def _forced(self, request: _DecodeRequest, text: str, language: str) -> tuple[list[int], Any]:
        """Return a text's tokens, and what Whisper makes of them when it has to say them.

        One at a time: unlike a search, this is one pass and gains nothing from a batch.
        """
        start_sequence = self.tokens.start_sequence(language, request.task)
        tokens = self.tokens.encode(text, _text_language(request, language))
        room = MAX_POSITIONS - len(start_sequence) - 2  # <|notimestamps|> and the end of text
        if len(tokens) > room:
            raise InvalidRequestError(
                f"a text to align or score must have at most {room} tokens; sent: {len(tokens)}"
            )
        [result] = self._model.align(
            _view(request.encoder_out[None]), start_sequence, [tokens], [2 * request.num_frames]
        )
        return tokens, result


def _view(array: FloatArray) -> ctranslate2.StorageView:
    return ctranslate2.StorageView.from_array(np.ascontiguousarray(array))


def _text_language(request: _DecodeRequest, spoken: str) -> str:
    """Return the language of a row's text: Whisper translates into English only."""
    return "en" if request.task == "translate" else spoken
