"""The `paraformer_online_decoder` component: live units to the text so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import FRAME_S
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis
from conch.decoding.rows import checked_frames, outputs_of
from conch.families.funasr.declaration import ONLINE, UNITS
from conch.families.funasr.folder import read_online_paraformer
from conch.families.funasr.network import opened_folder
from conch.families.funasr.online import units_of
from conch.families.funasr.paraformer import Unit, has_spaces, words_of_units
from conch.wire.errors import InvalidRequestError
from conch.wire.joining import joined_text
from conch.wire.languages import check_language


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineDecoderConfig:
    model: str = ""
    precision: str = "float32"
    language: str = ""
    """Language of the model; a request with another one is an error. Empty takes any."""
    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class UnitSearch:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens, self._has_spaces = tokens, has_spaces(tokens)
        self._units: list[Unit] = []
        self._frames = 0

    def advance(self, frames: FloatArray) -> None:
        """Take the next frames, float32 `[T, 2]`."""
        self._units += units_of(frames, self._tokens, 1.0, self._frames)
        self._frames += len(frames)

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        score = sum(unit.log_prob for unit in self._units)
        words = self._words()
        text = joined_text(word.text for word in words)
        return [CtcHypothesis(text, words, score, score, 0.0)]

    def stable_text(self) -> str:
        """Return all words but the last, which may go on."""
        return joined_text(word.text for word in self._words()[:-1])

    def _words(self) -> tuple[AlignedWord, ...]:
        return tuple(
            AlignedWord(word.text, round(word.start), round(word.end), word.confidence)
            for word in words_of_units(self._units, has_spaces=self._has_spaces)
        )


class UnitSearcher:
    def __init__(self, config: OnlineDecoderConfig) -> None:
        found = opened_folder(config, ONLINE, read_online_paraformer)
        self._tokens, self._language = found.tokens, config.language
        self._frame_s = found.front_end.shift * FRAME_S

    def new_search(self, parameters: Mapping[str, Any]) -> UnitSearch:
        check_language(parameters, self._language, "Paraformer")
        return UnitSearch(self._tokens)

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's frames, float32 `[T, 2]`."""
        frames = checked_frames(row, UNITS, 2, self._frame_s)
        if len(frames) and not 0 <= frames[:, 0].min() <= frames[:, 0].max() < len(self._tokens):
            raise InvalidRequestError(f"{UNITS} takes units from 0 to {len(self._tokens) - 1}")
        return frames

    def advance(
        self, searches: Sequence[UnitSearch], frames: Sequence[FloatArray]
    ) -> list[Exception | None]:
        for search, item in zip(searches, frames, strict=True):
            search.advance(item)
        return [None] * len(searches)

    def outputs(self, found: Sequence[CtcHypothesis]) -> Outputs:
        return outputs_of(found, self._frame_s)
