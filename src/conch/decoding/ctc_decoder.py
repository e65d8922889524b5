"""CTC log probabilities to n-best texts, as the `ctc_decoder` component."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conch.acoustic.ctc_graph import read_vocabulary
from conch.component import Outputs, Row, bytes_array
from conch.decoding.ctc_greedy import best_path
from conch.decoding.ctc_hypothesis import CtcHypothesis, words_of
from conch.decoding.ctc_language import load_ctc_language_model
from conch.decoding.ctc_options import CtcSearchOptions
from conch.decoding.ctc_search import CtcSearch
from conch.decoding.ctc_stable import stable_text
from conch.decoding.ctc_state import SearchState
from conch.decoding.ctc_vocab import CtcVocab
from conch.decoding.search_parameters import nbest_count, search_options
from conch.errors import InvalidRequestError, OptionError, TranscriptionError
from conch.language.ngram import LanguageModelConfig

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcDecoderConfig:
    """Parameters of the `ctc_decoder` component."""

    model: str = ""
    """The .onnx file whose units it writes; empty is the one that comes with Conch."""
    language: str = "en"
    """That the model writes; another in a request is an error."""
    language_model: str = ""
    """For lm_fusion: an ARPA file or pocketsphinx's .lm.bin; empty is the en-us trigram in the
    pocketsphinx package, none is none."""
    oov_log_prob: float = -12.0
    """Natural log probability of a word that the language model does not know."""
    intra_threads: int = 1
    """CPU threads; a step of the search is too small to gain from more."""
    device: str = "cpu"
    """cpu or cuda; left out of config.pbtxt, the instance's kind decides."""
    device_index: int = 0
    """Which GPU, with device cuda."""


class CtcDecoder:
    """Log probabilities of segments to n-best texts with words; rows share the search's steps."""

    def __init__(self, config: CtcDecoderConfig) -> None:
        """Load the units and the language model.

        Raises:
            ConfigError: one of them is missing or broken.
        """
        torch.set_num_threads(config.intra_threads)
        cuda = config.device == "cuda"
        device = torch.device("cuda", config.device_index) if cuda else torch.device("cpu")
        vocabulary = read_vocabulary(config.model)
        vocab = CtcVocab(vocabulary.texts)
        model = None
        if config.language_model != "none":
            language_model = LanguageModelConfig(
                model=config.language_model, oov_log_prob=config.oov_log_prob
            )
            model = load_ctc_language_model(language_model, vocab, device)
        self._search = CtcSearch(vocab, model, device)
        self._frame_s = vocabulary.frame_s
        self._language = config.language

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | TranscriptionError]:
        """Answer rows with `log_probs` and `log_probs_lens`."""
        answers: dict[int, Outputs | TranscriptionError] = {}
        searches: dict[int, tuple[SearchState, FloatArray]] = {}
        for index, row in enumerate(rows):
            try:
                log_probs, options = self.checked_log_probs(row), self.checked_options(row)
                if _is_greedy(options):
                    answers[index] = self._outputs([best_path(log_probs, self._search.vocab)])
                else:
                    searches[index] = self._search.start(options), log_probs
            except TranscriptionError as error:
                answers[index] = error
        for index, state in self.advanced(searches).items():
            answers[index] = self.outputs(state, nbest_count(rows[index].parameters), is_final=True)
        return [answers[index] for index in range(len(rows))]

    def checked_options(self, row: Row) -> CtcSearchOptions:
        """Return the options of a row's search.

        Raises:
            OptionError: one of them is out of range, or cannot be had here.
        """
        nbest_count(row.parameters)
        language = row.parameters.get("language", "auto")
        if language not in ("auto", self._language):
            raise OptionError(
                f"option 'language' takes auto or {self._language} with this CTC model; "
                f"sent: {language!r:.40}"
            )
        return search_options(row.parameters)

    def checked_log_probs(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, vocab]`.

        Raises:
            InvalidRequestError: they are of another vocabulary, or not numbers.
        """
        length = int(row.inputs["log_probs_lens"].item())
        log_probs = row.inputs["log_probs"][:length]
        width = len(self._search.vocab.texts)
        if length == 0:
            return np.zeros((0, width), np.float32)
        if log_probs.shape != (length, width):
            raise InvalidRequestError(
                f"log_probs takes [frames, {width}] with at least log_probs_lens frames; "
                f"sent: {list(row.inputs['log_probs'].shape)} and {length}"
            )
        if np.isnan(log_probs).any():
            raise InvalidRequestError("log_probs holds values that are not numbers")
        return log_probs

    def start(self, options: CtcSearchOptions) -> SearchState:
        """Return a search before its first frame."""
        return self._search.start(options)

    def advanced(
        self, searches: Mapping[int, tuple[SearchState, FloatArray]]
    ) -> dict[int, SearchState]:
        """Return searches after their next frames, all of them in one batch."""
        if not searches:
            return {}
        states, log_probs = zip(*searches.values(), strict=True)
        # A copy: the server's memory, where a row's array lies, cannot be written to.
        tensors = [torch.from_numpy(item.copy()) for item in log_probs]
        return dict(zip(searches, self._search.advance(states, tensors), strict=True))

    def outputs(self, state: SearchState, count: int, *, is_final: bool) -> Outputs:
        """Return the n-best of a search as tensors."""
        return self._outputs(self._search.nbest(state, count, is_final))

    def stable_text(self, state: SearchState, *, is_final: bool) -> str:
        """Return the beginning of the text that no later frame can change."""
        if is_final:
            return self._search.nbest(state, 1, is_final)[0].text
        return stable_text(state, self._search.vocab)

    def _outputs(self, found: Sequence[CtcHypothesis]) -> Outputs:
        words = [words_of(item, self._frame_s) for item in found]
        every = [word for of_one in words for word in of_one]
        return {
            "hypotheses": bytes_array([item.text for item in found]),
            "scores": np.array([item.score for item in found], np.float32),
            "am_scores": np.array([item.am_score for item in found], np.float32),
            "lm_scores": np.array([item.lm_score for item in found], np.float32),
            "num_words": np.array([len(of_one) for of_one in words], np.int32),
            "words": bytes_array([word.text for word in every]),
            "word_starts": np.array([word.start for word in every], np.float32),
            "word_ends": np.array([word.end for word in every], np.float32),
            "word_confidences": np.array([word.confidence for word in every], np.float32),
        }


def _is_greedy(options: CtcSearchOptions) -> bool:
    """Whether the best path is all that is asked for."""
    return options.beam_size == 1 and not options.language_model and not options.hotwords
