"""The CTC model as a recogniser, and as an opinion on other texts.

The option `decoder` names the search. component_models/README.md has the tensors of the components.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from conch.bls.call import Parameter, Tensor
from conch.bls.calls import Calls
from conch.component import Array, bytes_array
from conch.recognition.decoded import WORD_COLUMNS, Decoded, hypotheses_of, words_of
from conch.recognition.hooks import Heard, Recogniser
from conch.wire.options import RecognitionOptions

ENCODER, DECODER = "ctc_encoder", "ctc_decoder"
COLUMNS = ("hypotheses", "scores", "am_scores", "lm_scores", "num_words", *WORD_COLUMNS)
"""Output tensors with all that a search knows."""
IMPOSSIBLE = -1e4
"""Log probability of an impossible text: finite, so that sums and differences of scores are."""


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Output of an encoder, passed to the decoder without a copy."""

    log_probs: Array | Tensor
    log_probs_lens: Array | Tensor

    @property
    def inputs(self) -> dict[str, Array | Tensor]:
        """Inputs of the decoder."""
        return {"log_probs": self.log_probs, "log_probs_lens": self.log_probs_lens}

    def numpy(self) -> Array:
        """Return the log probabilities in host memory, FP32 [frames, units]."""
        return self.log_probs if isinstance(self.log_probs, np.ndarray) else self.log_probs.numpy()

    def part(self, start: float, end: float) -> "LogProbs":
        frames = self.numpy()
        # A copy: a view would keep the frames of the whole.
        frames = frames[round(start * len(frames)) : round(end * len(frames))].copy()
        return LogProbs(frames, np.array([len(frames)], np.int32))


class Ctc(Recogniser[LogProbs]):
    """The CTC encoder and decoder."""

    encoder = ENCODER

    async def encode(self, calls: Calls, waveform: Array) -> LogProbs:
        wanted = ("log_probs", "log_probs_lens")
        outputs = await calls(ENCODER, {"waveform": waveform}, wanted)
        return LogProbs(*(outputs[name] for name in wanted))

    async def decode(
        self, calls: Calls, encoded: LogProbs, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        """See `Recogniser.decode`. The words of all hypotheses are known in any case."""
        parameters, columns = search_parameters(options), list(COLUMNS)
        if options.lattice:
            parameters["lattice"] = True
            columns.append("lattice")
        outputs = await calls(DECODER, encoded.inputs, columns, parameters, work=options.beam_size)
        found = decoded(outputs, options, start or 0.0)
        if not options.lattice:
            return found
        return replace(found, lattice=outputs["lattice"].numpy()[0].decode())


CTC = Ctc()


async def scores(
    calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
) -> list[float]:
    """Return the log probability of each text, over all alignments; see `ScoreTexts`.

    A text with more letters than there are frames is impossible; it has `IMPOSSIBLE`.
    """
    encoded = await heard.by(CTC)
    inputs = {**encoded.inputs, "texts": bytes_array(texts)}
    outputs = await calls(DECODER, inputs, ("text_scores",), {"language": options.language})
    return [max(float(score), IMPOSSIBLE) for score in outputs["text_scores"].numpy()]


def search_parameters(options: RecognitionOptions) -> dict[str, Parameter]:
    """Return the parameters of a search."""
    weights = options.fusion_weights
    return {
        "decoder": options.decoder,
        "beam_size": options.beam_size,
        "nbest": options.beam_size if options.is_rescored else options.nbest,
        "lm_fusion": options.lm_fusion,
        "lm_weight": str(weights.lm),  # parameters of BLS calls cannot be floats
        "word_bonus": str(weights.word_bonus),
        "hotwords": options.hotwords,
        "hotword_weight": str(options.hotword_weight),
        "language": options.language,
    }


def decoded(outputs: Mapping[str, Tensor], options: RecognitionOptions, start: float) -> Decoded:
    """Return what a search has found, of its output tensors `COLUMNS`."""
    timed = iter(words_of(outputs, start))
    nbest, words = [], {}
    for hypothesis, am_score, lm_score, num_words in zip(
        hypotheses_of(outputs),
        *(outputs[name].numpy().tolist() for name in ("am_scores", "lm_scores", "num_words")),
        strict=True,
    ):
        has_lm = options.lm_fusion or options.decoder == "wfst"
        fused = {"lm_score": lm_score, "num_words": num_words} if has_lm else {}
        nbest.append(replace(hypothesis, am_score=am_score, **fused))
        words[hypothesis.text] = tuple(islice(timed, num_words))
    return Decoded(nbest, words)
