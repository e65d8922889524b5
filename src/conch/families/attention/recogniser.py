"""An encoder and an attention decoder as a recogniser, and as an opinion on the texts of others.

component_models/README.md has the tensors of both components.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from conch.bls.call import Parameter
from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.families.attention.hotwords import with_hotwords
from conch.families.search.recogniser import EncodedFrames
from conch.language import language_model_words
from conch.recognition.hooks import Recogniser, decoder_of
from conch.recognition.languages import with_language
from conch.recognition.speech import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Word

TOKENS, AGREEMENT, BIAS = 0.59, 0.23, 0.11
"""Coefficients of `calibrated`, by logistic regression on dev: see docs/notes/rescoring.md."""
_CERTAIN = 0.999
"""Largest probability that counts, so that its log odds are finite."""


def calibrated(words: Sequence[Word], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
    """Return words whose confidence is the probability that they are right.

    Its log odds are a weighted sum of two others: those of the decoder's own confidence, and of the
    word's posterior probability in the list (Platt, 1999; Wessel et al., 2001,
    https://doi.org/10.1109/89.906002). Hypotheses that sound the same are one in the posterior.

    `words` are those of the best hypothesis. `nbest` is in the order of all opinions, scores in
    nats.
    """
    rescored = []
    for word, agreement in zip(words, agreements(words, nbest), strict=True):
        odds = TOKENS * log_odds(word.confidence) + AGREEMENT * log_odds(agreement) + BIAS
        rescored.append(replace(word, confidence=round(1 / (1 + math.exp(-odds)), 4)))
    return tuple(rescored)


def agreements(words: Sequence[Word], nbest: Sequence[Hypothesis]) -> list[float]:
    """Return the posterior probability of each word of the best text: its share of the list."""
    spoken = [language_model_words(word.text) for word in words]
    best = [part for parts in spoken for part in parts]
    scores: dict[tuple[str, ...], float] = {}
    for item in nbest:
        scores.setdefault(tuple(language_model_words(item.text)), item.score)
    highest = max(scores.values())
    shares = {text: math.exp(score - highest) for text, score in scores.items()}
    total = sum(shares.values())
    posteriors = np.zeros(len(best))
    for text, share in shares.items():
        same = SequenceMatcher(None, best, text, autojunk=False)
        for block in same.get_matching_blocks():
            posteriors[block.a : block.a + block.size] += share / total
    parts = iter(posteriors.tolist())
    return [min([next(parts) for _ in item], default=1.0) for item in spoken]


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, clipped so that they are finite."""
    clipped = min(max(probability, 1 - _CERTAIN), _CERTAIN)
    return math.log(clipped / (1 - clipped))


class AttentionRecogniser(Recogniser[EncodedFrames]):
    def __init__(
        self,
        encoder: str,
        decoder: str,
        open_window: Mapping[str, int] | None = None,
        *,
        continues: bool = False,
    ) -> None:
        """`open_window` has the encoder's parameters for an open live utterance.

        With `continues`, the decoder takes the parameters `said` and `draft` for its text.
        """
        self.encoder, self.decoder, self._open_window = encoder, decoder, open_window
        self._continues = continues

    async def encode(
        self, calls: Calls, waveform: Array, window: Mapping[str, int] | None = None
    ) -> EncodedFrames:
        """`window` has parameters in place of those of the config."""
        wanted = ("encoder_out", "encoder_out_lens")
        outputs = await calls(self.encoder, {"waveform": waveform}, wanted, window)
        return EncodedFrames.of("encoder_out", outputs, waveform)

    async def encode_open(self, calls: Calls, waveform: Array) -> EncodedFrames:
        return await self.encode(calls, waveform, self._open_window)

    async def decode(
        self,
        calls: Calls,
        encoded: EncodedFrames,
        options: RecognitionOptions,
        start: float | None,
        given: Mapping[str, Parameter] | None = None,
    ) -> Decoded:
        """`given` has parameters of the decoder beside those of the options."""
        is_ranked_again = options.is_rescored or bool(options.hotwords)
        # If the decoder reads none, the prompt is for the neural rescorer.
        prompt = options.prompt if decoder_of(options).reads_prompt else ""
        columns = () if start is None else WORD_COLUMNS
        outputs = await calls(
            self.decoder,
            encoded.inputs,
            ("hypotheses", "scores", "language", "language_probability", *columns),
            {
                "beam_size": options.beam_size,
                "nbest": options.beam_size if is_ranked_again else options.nbest,
                "align": start is not None,
                **_parameters(options),
                **({"prompt": prompt} if prompt else {}),
                **(given or {}),
            },
            work=options.beam_size,
        )
        nbest = hypotheses_of(outputs)
        language = outputs["language"].numpy()[0].decode()
        probability = float(outputs["language_probability"].numpy()[0])
        known = with_language(options, language)

        async def scores(texts: list[str]) -> list[float]:
            return await self.text_scores(calls, encoded, texts, known)

        return Decoded(
            await with_hotwords(nbest, known, scores),
            {} if start is None else {nbest[0].text: words_of(outputs, start)},
            language=language,
            language_probability=None if math.isnan(probability) else round(probability, 4),
        )

    async def decode_known(
        self,
        calls: Calls,
        encoded: EncodedFrames,
        options: RecognitionOptions,
        start: float | None,
        said: str | None,
        draft: str,
    ) -> Decoded:
        texts = {"said": said, "draft": draft or None} if self._continues else {}
        given = {name: text for name, text in texts.items() if text is not None}
        return await self.decode(calls, encoded, options, start, given)

    async def align(
        self,
        calls: Calls,
        encoded: EncodedFrames,
        text: str,
        options: RecognitionOptions,
        start: float,
    ) -> tuple[Word, ...]:
        inputs = {**encoded.inputs, "text": bytes_array([text])}
        return words_of(
            await calls(self.decoder, inputs, WORD_COLUMNS, _parameters(options)), start
        )

    async def text_scores(
        self, calls: Calls, encoded: EncodedFrames, texts: list[str], options: RecognitionOptions
    ) -> list[float]:
        inputs = {**encoded.inputs, "texts": bytes_array(texts)}
        outputs = await calls(self.decoder, inputs, ("text_scores",), _parameters(options))
        return [float(score) for score in outputs["text_scores"].numpy()]

    def calibrated(self, words: tuple[Word, ...], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
        return calibrated(words, nbest)


def _parameters(options: RecognitionOptions) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {"language": options.language}
    if options.languages:
        parameters["languages"] = options.languages
    if options.task != "transcribe":
        parameters["task"] = options.task
    return parameters
