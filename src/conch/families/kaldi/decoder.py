"""The `kaldi_decoder` and `kaldi_streaming_decoder` components: waveforms to texts."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from conch.catalogue.checks import UnfitModelError, plain_text
from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row
from conch.component.parameters import DeviceConfig
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis
from conch.decoding.rows import nbest_count, outputs_of
from conch.decoding.streaming_decoder import searched
from conch.families.kaldi.folder import check_kaldi
from conch.wire.errors import AudioError, ConfigError
from conch.wire.languages import check_language
from conch.wire.limits import MAX_SEGMENT_S, MAX_STEP_S

FRAME_S = 0.01
"""Seconds of the frames in which words are timed."""
_LEAST = 1e-6
"""Confidence of a word to which Vosk gives none."""
_PIECE = 4_000
"""Samples of a recording in a call of Vosk, as in its examples: after each it looks for the end of
an utterance."""
_MFCC = "mfcc.conf"
_TEXTS = (".conf", ".txt", ".int")


class Alternative(NamedTuple):
    words: tuple[AlignedWord, ...] = ()
    score: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


def alternatives(result: str) -> list[Alternative]:
    """Return the texts of a result of Vosk with words, which is JSON, in its order."""
    parsed = json.loads(result)
    if "alternatives" not in parsed:
        words = [
            _word(item, item["conf"])
            for item in parsed.get("result", parsed.get("partial_result", ()))
        ]
        score = sum(math.log(word.confidence) for word in words)
        return [Alternative(tuple(words), score)]
    items = [(item.get("result", []), float(item["confidence"])) for item in parsed["alternatives"]]
    most = max(score for _, score in items)
    weights = [math.exp(score - most) for _, score in items]
    spoken = [{item["word"] for item in words} for words, _ in items]

    def share(word: str) -> float:
        having = (weight for weight, known in zip(weights, spoken, strict=True) if word in known)
        return sum(having) / sum(weights)

    return [
        Alternative(tuple(_word(item, share(item["word"])) for item in words), score)
        for words, score in items
    ]


def joined(parts: Sequence[Sequence[Alternative]], count: int) -> list[CtcHypothesis]:
    """Return the best hypotheses of stretches that follow each other, no text twice."""
    best = [Alternative()]
    for part in parts:
        grown = [
            Alternative(before.words + item.words, before.score + item.score)
            for before in best
            for item in part
        ]
        best = sorted(grown, key=lambda item: -item.score)[:count]
    hypotheses: dict[str, CtcHypothesis] = {}
    for item in best:
        hypothesis = CtcHypothesis(item.text, item.words, item.score, item.score, 0.0)
        hypotheses.setdefault(item.text, hypothesis)
    return [*hypotheses.values()]


def _word(item: dict[str, Any], confidence: float) -> AlignedWord:
    start = round(item["start"] / FRAME_S)
    end = max(start + 1, round(item["end"] / FRAME_S))
    return AlignedWord(item["word"], start, end, min(1.0, max(_LEAST, confidence)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KaldiDecoderConfig(DeviceConfig):
    language: str = ""


class KaldiUtterance:
    def __init__(self, begin: Callable[[], Any]) -> None:
        """Begin an utterance; the recogniser of Vosk, which takes 60 ms, when it is needed."""
        self._begin = begin
        self._recognizer: Any = None
        self._parts: list[Sequence[Alternative]] = []
        """Alternatives of the stretches that Vosk has finished."""

    def accept(self, waveform: FloatArray) -> None:
        """Take the next samples, float32 `[samples]` in [-1, 1]."""
        if not len(waveform):
            return
        self._recognizer = self._recognizer or self._begin()
        samples = np.clip(np.rint(waveform * 32_768), -32_768, 32_767).astype(np.int16)
        if self._recognizer.AcceptWaveform(samples.tobytes()):
            self._parts.append(alternatives(self._recognizer.Result()))

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        if self._recognizer is None:
            return joined([], count)
        vosk = self._recognizer
        result = vosk.FinalResult() if is_final else vosk.PartialResult()
        return joined([*self._parts, alternatives(result)], count)

    def stable_text(self) -> str:
        """Return what Vosk has finished."""
        return joined(self._parts, 1)[0].text


class KaldiDecoder:
    """Searches waveforms with a model, several at the same time."""

    def __init__(self, config: KaldiDecoderConfig) -> None:
        if not config.model:
            raise ConfigError("parameter 'model' is empty: conch serve --kaldi FOLDER sets it")
        try:
            check_kaldi(Path(config.model))
        except UnfitModelError as error:
            raise ConfigError(f"{config.model} is no Kaldi model: {error}") from None
        # Not before a folder needs it: the package is optional.
        import vosk

        vosk.SetLogLevel(-1)
        self._vosk, self._language = vosk, config.language
        with _without_noise(Path(config.model)) as folder:
            try:
                self._model = vosk.Model(str(folder))
            except Exception as error:  # Vosk raises nothing more special
                raise ConfigError(f"Vosk cannot load {config.model}: {error}") from None
        self._pool = ThreadPoolExecutor(config.threads, thread_name_prefix="vosk")

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs | Exception]:
        return searched(self, rows, lambda row: row.segment(MAX_SEGMENT_S))

    def new_search(self, parameters: Mapping[str, Any]) -> KaldiUtterance:
        count = nbest_count(parameters)
        check_language(parameters, self._language, "Kaldi model")

        def begin() -> Any:
            recognizer = self._vosk.KaldiRecognizer(self._model, SAMPLE_RATE)
            recognizer.SetWords(True)
            recognizer.SetPartialWords(True)
            # Without alternatives Vosk knows the confidences of words.
            recognizer.SetMaxAlternatives(count if count > 1 else 0)
            return recognizer

        return KaldiUtterance(begin)

    def checked_frames(self, row: Row) -> FloatArray:
        """Return a row's samples, float32 `[samples]`."""
        waveform = row.waveform(MAX_STEP_S)
        if not np.isfinite(waveform).all():
            raise AudioError("the chunk holds samples that are not finite numbers")
        return waveform

    def advance(
        self, searches: Sequence[KaldiUtterance], frames: Sequence[FloatArray]
    ) -> list[Exception | None]:
        def accept(search: KaldiUtterance, waveform: FloatArray) -> Exception | None:
            try:
                for first in range(0, len(waveform), _PIECE):
                    search.accept(waveform[first : first + _PIECE])
            except Exception as error:
                return error
            return None

        return [*self._pool.map(accept, searches, frames)]

    def outputs(self, hypotheses: Sequence[CtcHypothesis]) -> Outputs:
        return outputs_of(hypotheses, FRAME_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class KaldiStreamingDecoderConfig(KaldiDecoderConfig):
    stream_ttl_s: float = 90.0


@contextmanager
def _without_noise(folder: Path) -> Iterator[Path]:
    """Yield a model whose texts Vosk can read, without noise, which makes other texts each time."""
    with TemporaryDirectory() as made:
        target = Path(made)
        for parent, _, names in os.walk(folder.absolute(), followlinks=True):
            inside = target / Path(parent).relative_to(folder.absolute())
            inside.mkdir(exist_ok=True)
            for name in names:
                path = Path(parent, name)
                if path.suffix in _TEXTS:
                    (inside / name).write_bytes(plain_text(path))
                else:
                    (inside / name).symlink_to(path)
        with (target / "conf" / _MFCC).open("a") as settings:
            settings.write("\n--dither=0\n")
        yield target
