"""The `transducer_decoder` and `transducer_streaming_decoder` components: frames to texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conch.component import FloatArray, Outputs, Row
from conch.decoding.beam import CtcSearchOptions
from conch.decoding.fusion import Fusion, load_fused_language_model
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.rows import checked_frames, hotwords, nbest_count, outputs_of, search_options
from conch.decoding.streaming_decoder import searched
from conch.decoding.vocab import WrittenUnits
from conch.families.search import ENDS_TURN
from conch.families.search.graphs import DecoderConfig
from conch.families.transducer import MAX_BEAM
from conch.families.transducer.guide import Bias, Guide
from conch.families.transducer.networks import Joint, opened_folder
from conch.families.transducer.search import TransducerSearch, TransducerUtterance
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword
from conch.wire.languages import check_language

_PART_OF_LETTER = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerDecoderConfig(DecoderConfig):
    blank_penalty: float = 0.0
    language_model: str = ""
    oov_log_prob: float = -30.0


class TransducerDecoder:
    def __init__(self, config: TransducerDecoderConfig) -> None:
        model = opened_folder(config)
        self._language = config.language
        self._joint = Joint(model, config.threads, config.blank_penalty)
        self._frame_s = model.frame_s
        units = WrittenUnits(model.tokens, model.blank)
        self._search = TransducerSearch(self._joint, units)
        self._texts = units.texts
        self._language_model = None
        if config.language_model:
            self._language_model = load_fused_language_model(
                config.language_model, config.oov_log_prob, self._texts
            )
        # Bytes write any letter.
        letters = {letter for text in self._texts for letter in text.lower()}
        self._letters = set() if _PART_OF_LETTER in letters else {*letters, " "}

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        """Answer rows with `encoder_out` and `encoder_out_lens`, all in one search."""
        return searched(self, rows, self.checked_frames)

    def new_search(self, parameters: Mapping[str, Any]) -> TransducerUtterance:
        nbest_count(parameters)
        options = search_options({"beam_size": 1, **parameters})
        if options.beam_size > MAX_BEAM:
            raise OptionError(
                f"option 'beam_size' takes at most {MAX_BEAM} with decoder transducer; "
                f"sent: {options.beam_size}"
            )
        check_language(parameters, self._language, "transducer")
        words = self._hotwords(parameters)
        bias = Bias(words, self._texts) if words else None
        return self._search.utterance(options.beam_size, Guide(bias, self._fusion(options)))

    def _fusion(self, options: CtcSearchOptions) -> Fusion | None:
        if not options.language_model:
            return None
        if not self._language_model:
            raise OptionError(
                "option 'lm_fusion' takes false here: no language model is loaded; the parameter "
                "'language_model' of transducer_decoder names an ARPA file; sent: True"
            )
        return Fusion(self._language_model, self._texts, options.lm_weight, options.word_bonus)

    def _hotwords(self, parameters: Mapping[str, Any]) -> list[Hotword]:
        usable = []
        for hotword in hotwords(parameters):
            foreign = {*hotword.phrase.lower()} - self._letters if self._letters else set()
            if not foreign:
                usable.append(hotword)
            elif parameters.get("skip_foreign") is not True:
                raise OptionError(
                    "option 'hotwords' takes phrases in the letters of the model; sent: "
                    f"{hotword.phrase!r:.80}, which has {min(foreign)!r}"
                )
        return usable

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, size]`."""
        return checked_frames(row, "encoder_out", self._joint.frame_size, self._frame_s)

    def advance(
        self, searches: Sequence[TransducerUtterance], frames: Sequence[FloatArray]
    ) -> list[Exception | None]:
        try:
            self._search.advance(searches, frames)
        except Exception as error:
            return [error] * len(searches)
        return [None] * len(searches)

    def outputs(self, hypotheses: Sequence[CtcHypothesis]) -> Outputs:
        ends_turn = np.array([hypotheses[0].ends_turn], np.int32)
        return {**outputs_of(hypotheses, self._frame_s), ENDS_TURN: ends_turn}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerStreamingDecoderConfig(TransducerDecoderConfig):
    stream_ttl_s: float = 90.0
