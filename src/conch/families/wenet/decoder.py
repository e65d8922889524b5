"""The `wenet_decoder` and `wenet_streaming_decoder` components: frames to texts.

The search of CTC finds hypotheses, and the model's attention decoders score them again, as in U2
(https://arxiv.org/abs/2012.05481) and U2++ (https://arxiv.org/abs/2106.05642).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conch.component import FloatArray, Row
from conch.decoding.beam import BeamHypothesis
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.rows import checked_frames
from conch.decoding.utterance_search import UtteranceSearch
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.families.search.graphs import DecoderConfig
from conch.families.wenet import FRAMES, RESCORE
from conch.families.wenet.networks import AttentionDecoders, opened_folder, vocabulary_of
from conch.wire.languages import check_language


class RescoredUtterance:
    """The search of one utterance, whose final hypotheses attention decoders score again."""

    def __init__(
        self, search: UtteranceSearch, decoder: "WenetDecoder", *, is_rescored: bool
    ) -> None:
        self._search, self._decoder, self._is_rescored = search, decoder, is_rescored
        self._hidden: list[FloatArray] = []

    def advance(self, frames: FloatArray) -> None:
        """Take float32 `[T, units + size]`."""
        num_units = self._decoder.num_units
        if not len(frames):
            return
        self._search.advance(frames[:, :num_units])
        if self._is_rescored:
            self._hidden.append(frames[:, num_units:])

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        if not (is_final and self._is_rescored):
            return self._search.nbest(count, is_final=is_final)
        hypotheses = self._search.nbest(max(count, self._decoder.num_hypotheses), is_final=True)
        if not any(item.text for item in hypotheses):
            return hypotheses
        scores = self._decoder.scores(np.concatenate(self._hidden), hypotheses)
        rescored = [
            replace(item, score=score) for item, score in zip(hypotheses, scores, strict=True)
        ]
        return sorted(rescored, key=lambda item: -item.score)[:count]

    def stable_text(self) -> str:
        return self._search.stable_text()


class WenetDecoder(CtcDecoder):
    def __init__(self, config: DecoderConfig) -> None:
        model = opened_folder(config)
        super().__init__(CtcDecoderConfig(), vocabulary_of(model))
        self.num_units, self.num_hypotheses = len(model.tokens), model.num_hypotheses
        self._attention = AttentionDecoders(model, config.threads)
        self._only = config.language

    def new_search(self, parameters: Mapping[str, Any]) -> RescoredUtterance:
        check_language(parameters, self._only, "model of WeNet")
        is_rescored = parameters.get(RESCORE) is True
        ctc_parameters = {**parameters, "decoder": "ctc", "language": "auto"}
        if is_rescored and ctc_parameters.get("beam_size") == 1:
            # The best path alone leaves nothing to choose: the default of the search is taken.
            del ctc_parameters["beam_size"]
        return RescoredUtterance(super().new_search(ctc_parameters), self, is_rescored=is_rescored)

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, units + size]`."""
        # Only the network knows the size.
        width = max(self.num_units + 1, row.inputs[FRAMES].shape[-1])
        return checked_frames(row, FRAMES, width, self._frame_s)

    def scores(self, hidden: FloatArray, hypotheses: list[CtcHypothesis]) -> list[float]:
        units = [
            item.units if isinstance(item, BeamHypothesis) else self._units.encode(item.text)
            for item in hypotheses
        ]
        return self._attention.scores(hidden, units, [item.score for item in hypotheses])
