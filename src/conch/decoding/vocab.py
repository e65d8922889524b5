"""The units of a CTC vocabulary, and the words that they write."""

import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conch.component import SAMPLE_RATE
from conch.decoding.hypothesis import AlignedWord, PathUnit, aligned_word, spelled_words
from conch.decoding.units import BLANK, ENCODER_FRAME_SAMPLES, SPECIAL
from conch.wire.errors import ConfigError
from conch.wire.joining import has_unspaced, is_within_word, joined_text

UNKNOWN = "<unk>"
END_OF_UTTERANCE = "<EOU>"
_SPACE = "▁"
_CONTROL = re.compile(r"<unk>|<[a-z]{2,3}(-[A-Z]{2})?>|<EO[UB]>")
"""Units without text: the unknown one, and NeMo's tags of languages and of ends of speech."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_BYTE_BPE = range(0x180, 0x1C0)
"""Code points of the last characters of byte BPE."""
Spelled = tuple[int, int, float]
"""A unit, its frame, and its log probability there."""


@dataclass(frozen=True, slots=True)
class OutputUnits:
    texts: tuple[str, ...]
    """Text of each unit. The first is the blank, with an empty text. A space separates words."""
    stack: int
    """Number of encoder frames per output frame."""
    units: str
    """The units as JSON, for `conch.decoding.units.units_from_dict`."""
    symbols: tuple[str, ...] = ()
    """Symbols of an export, in the order of `texts`; empty for a graph of Conch's recipe."""

    @property
    def silent(self) -> list[int]:
        """Units that are not speech: the blank and the space."""
        return [unit for unit, text in enumerate(self.texts) if not text.strip()]

    @property
    def frame_s(self) -> float:
        return self.stack * ENCODER_FRAME_SAMPLES / SAMPLE_RATE


class CtcVocab:
    """The texts of a model's units; the first is the blank, an empty text."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        if not texts or texts[BLANK]:
            raise ConfigError(f"vocab must begin with the blank, '', has: {texts[:1]!r}")
        if len(set(texts)) < len(texts):
            raise ConfigError("vocab must hold every unit once")
        for text in texts:
            if " " in text[1:]:
                raise ConfigError(f"vocab takes a space at a unit's beginning only; has: {text!r}")
        self.texts = texts

    @property
    def space(self) -> int | None:
        return self.texts.index(" ") if " " in self.texts else None

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of some units, its words separated by single spaces."""
        return " ".join("".join([self.texts[unit] for unit in units]).split())

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        return spelled_words(
            PathUnit(self.texts[unit], frame, frame + 1, log_prob)
            for unit, frame, log_prob in spelled
        )

    def complete(self, units: Sequence[int]) -> list[str]:
        """Return the words of some units that no further unit changes."""
        opens = [index for index, unit in enumerate(units) if self.texts[unit].startswith(" ")]
        # What follows the last space may still grow.
        return self.text_of(units[: opens[-1]]).split() if opens else []


class ExportedVocab(CtcVocab):
    """The units of an export, which may be letters of scripts without spaces, or bytes."""

    def __init__(self, vocabulary: OutputUnits) -> None:
        super().__init__(vocabulary.texts)
        symbols = vocabulary.symbols
        units = ["" if SPECIAL.fullmatch(text) else text for text in symbols]
        self._units = WrittenUnits(units)

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of units; scripts without spaces have none between words."""
        letters = self._units.letters(units)
        if not has_unspaced(letters):  # in a twentieth of the time
            return " ".join(letters.split())
        return joined_text(word.text for word in self.words((unit, 0, 0.0) for unit in units))

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        """Return the words of units; each letter of a script without spaces is one."""
        return self._units.words(spelled)

    def complete(self, units: Sequence[int]) -> list[str]:
        return [word.text for word in self.words((unit, 0, 0.0) for unit in units)[:-1]]


def vocab_of(vocabulary: OutputUnits) -> CtcVocab:
    return ExportedVocab(vocabulary) if vocabulary.symbols else CtcVocab(vocabulary.texts)


def is_byte_bpe(letters: Iterable[str]) -> bool:
    """Return whether the letters of a model's symbols stand for bytes."""
    return max(map(ord, letters), default=0) in _BYTE_BPE


def _byte_of() -> dict[str, int]:
    """Return the byte of each character of byte BPE, as icefall writes it.

    A printable byte stands for itself. The others are, in order, the letters from U+0100 on that
    NFKC leaves alone.
    """
    letters = (
        letter
        for letter in map(chr, itertools.count(0x100))
        if unicodedata.normalize("NFKC", letter) == letter
    )
    return {chr(one) if 32 <= one < 127 else next(letters): one for one in range(256)}


@dataclass(slots=True)
class _Word:
    text: str = ""
    units: dict[int, PathUnit] = field(default_factory=dict)
    """Units that have written the word, by position."""


class WrittenUnits:
    def __init__(self, tokens: Sequence[str], blank: int = 0) -> None:
        # `<unk>` is no text. The search takes it for a blank, as sherpa-onnx does, but with NeMo's
        # models, whose blank is the last unit.
        unknown = [unit for unit, text in enumerate(tokens) if text == UNKNOWN]
        self.silent = [blank] if blank else [blank, *unknown]
        self.ends = {unit for unit, text in enumerate(tokens) if text == END_OF_UTTERANCE}
        """Units that say that the speaker has finished."""
        letters = {letter for text in tokens for letter in text.replace(_SPACE, "")}
        is_bytes = is_byte_bpe(letters)
        self._bytes = [self._content(text, is_byte_bpe=is_bytes) for text in tokens]

    @property
    def texts(self) -> list[str]:
        """Text of each unit, with a space where it begins a word; U+FFFD for part of a letter."""
        return [item.decode("utf-8", "replace") for item in self._bytes]

    @staticmethod
    def _content(text: str, *, is_byte_bpe: bool) -> bytes:
        """Return the UTF-8, or a part of it, that a symbol writes."""
        if _CONTROL.fullmatch(text):
            return b""
        if match := _BYTE.fullmatch(text):
            return bytes.fromhex(match[1])
        if is_byte_bpe:
            table = _byte_of()
            return bytes(32 if item == _SPACE else table[item] for item in text)
        return (f" {text[1:]}" if text.startswith(_SPACE) else text).encode()

    def words(self, units: Iterable[tuple[int, int, float]]) -> tuple[AlignedWord, ...]:
        """Return words of (unit, frame, log probability); a letter of an unspaced script is one."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        words = [_Word()]
        waiting: list[tuple[int, PathUnit]] = []
        """Units of a letter that is not complete."""
        for position, (unit, frame, log_prob) in enumerate(units):
            if not self._bytes[unit]:
                continue
            waiting.append((position, PathUnit("", frame, frame + 1, log_prob)))
            text = decoder.decode(self._bytes[unit])
            for letter in text:
                if letter.isspace() or (
                    words[-1].text and not is_within_word(words[-1].text, letter)
                ):
                    words.append(_Word())
                if not letter.isspace():
                    words[-1].text += letter
                    words[-1].units.update(waiting)
            if text:
                waiting.clear()
        return tuple(aligned_word(word.text, [*word.units.values()]) for word in words if word.text)

    def letters(self, units: Iterable[int]) -> str:
        """Return the letters that units write, a space where one begins a word."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Not final: a letter that is not complete is none, as in `words`.
        return decoder.decode(b"".join([self._bytes[unit] for unit in units]))
