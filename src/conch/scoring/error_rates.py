"""Error rates in words or characters, by language, and tables of them in Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from conch.wire.languages import code_of

Metric = Literal["auto", "wer", "cer"]
"""Unit of errors: words, characters, or the usual one of the language."""

UNSPACED = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km"})
"""Languages whose errors are counted in characters. For Chinese, Japanese, Thai, Lao and Burmese
Whisper's authors do so (Radford et al. 2022, arXiv 2212.04356, appendix C); Cantonese and Khmer
have no spaces between words either."""
CHINESE = frozenset({"zh", "yue"})
"""Languages whose texts are compared in simplified characters: Whisper writes either kind."""
ENGLISH = "en"

# Each is also right in a few simplified words, so the table leaves it. Both sides get the same.
_LEFT = str.maketrans("於著徵夥拋乾摺", "于着征伙抛干折")
"""Simplified forms of traditional characters that the table of WeTextProcessing leaves."""

Normaliser = Literal["English", "basic", "Chinese"]
"""Normaliser that both sides of a comparison pass: one of Whisper's two, for Chinese the basic one
after traditional characters became simplified ones."""
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Scoring:
    metric: Literal["wer", "cer"] = "wer"
    normaliser: Normaliser = "English"

    @classmethod
    def of(cls, metric: Metric, language: str) -> "Scoring":
        """Return how texts of a language are compared; `auto` is `cer` for those of `UNSPACED`."""
        usual: Literal["wer", "cer"] = "cer" if language in UNSPACED else "wer"
        normaliser: Normaliser = "Chinese" if language in CHINESE else "basic"
        return cls(
            usual if metric == "auto" else metric, "English" if language == ENGLISH else normaliser
        )

    @property
    def title(self) -> str:
        is_chinese = self.normaliser == "Chinese"
        whispers = "basic" if is_chinese else self.normaliser
        simplified = ", in simplified characters" if is_chinese else ""
        return f"{self.metric.upper()}, Whisper's {whispers} normaliser{simplified}"

    def tokens(self, text: str) -> list[str]:
        words = self.normalized(text).split()
        return words if self.metric == "wer" else list("".join(words))

    def normalized(self, text: str) -> str:
        if not text.strip():
            return ""
        text = _simplified(text) if self.normaliser == "Chinese" else text
        return _whispers(self.normaliser == "English")(text).strip()


ENGLISH_WORDS = Scoring()


def language_of(*known: str) -> str:
    """Return the language that texts are compared in: the first one known, else English.

    `known` are codes or names such as `de`, `zh-TW`; empty, or `auto`, if unknown.
    """
    return next((code for code in map(code_of, known) if code != "auto"), ENGLISH)


def language_of_texts(options: Mapping[str, Any], of_manifest: str, of_answer: str = "") -> str:
    """Return the language that a reference and an answer are compared in.

    A translation is English, and so is its reference, whatever was spoken. Otherwise it is that of
    the manifest, else of the requests' options, else of the answer, else English.
    """
    if options.get("task") == "translate":
        return ENGLISH
    return language_of(of_manifest, str(options.get("language", "")), of_answer)


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The counts behind an error rate, in words or in what `scoring` counts."""

    words: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    scoring: Scoring = ENGLISH_WORDS

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float | None:
        return round(self.errors / self.words, 6) if self.words else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterErrors:
    reference_characters: int
    """Characters of the normalised references, without spaces."""
    substitutions: int
    deletions: int
    insertions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Errors of a run, pooled over its utterances: in words, and where they count in characters."""

    wer: float | None
    """Word error rate, a fraction; None without a reference whose words count."""
    wer_by_source: Mapping[str, float | None]
    reference_words: int
    substitutions: int
    deletions: int
    insertions: int
    cer: float | None = None
    """Character error rate, a fraction; None without a reference whose characters count."""
    cer_by_source: Mapping[str, float | None] = field(default_factory=dict)
    character_errors: CharacterErrors | None = None
    """Counts in characters; None without a reference whose characters count."""
    scoring: Sequence[str] = ()

    @property
    def error_rate(self) -> float | None:
        """The word error rate, or the character error rate where no words count."""
        return self.cer if self.wer is None else self.wer


def word_errors(reference: str, hypothesis: str, scoring: Scoring = ENGLISH_WORDS) -> WordErrors:
    """Return the errors of one utterance, none for a reference without words.

    They are counted as by https://github.com/huggingface/open_asr_leaderboard.
    """
    words = scoring.tokens(reference)
    if not words:
        return WordErrors(scoring=scoring)
    import jiwer

    alignment = jiwer.process_words(" ".join(words), " ".join(scoring.tokens(hypothesis)))
    counts = (alignment.substitutions, alignment.deletions, alignment.insertions)
    return WordErrors(len(words), *counts, scoring)


def pooled(errors: Iterable[WordErrors]) -> WordErrors:
    counted = list(errors)
    return WordErrors(
        sum(item.words for item in counted),
        sum(item.substitutions for item in counted),
        sum(item.deletions for item in counted),
        sum(item.insertions for item in counted),
    )


def accuracy(errors: Sequence[tuple[str, WordErrors]]) -> Accuracy:
    """Return the accuracy of utterances, each given with its source; "" is no source."""
    words = [item for item in errors if item[1].scoring.metric == "wer"]
    characters = [item for item in errors if item[1].scoring.metric == "cer"]
    total = pooled(item for _, item in words)
    of_characters = pooled(item for _, item in characters)
    return Accuracy(
        wer=total.wer,
        wer_by_source=_by_source(words),
        reference_words=total.words,
        substitutions=total.substitutions,
        deletions=total.deletions,
        insertions=total.insertions,
        cer=of_characters.wer,
        cer_by_source=_by_source(characters),
        character_errors=CharacterErrors(
            reference_characters=of_characters.words,
            substitutions=of_characters.substitutions,
            deletions=of_characters.deletions,
            insertions=of_characters.insertions,
        )
        if of_characters.words
        else None,
        scoring=sorted({item.scoring.title for _, item in errors if item.words}),
    )


def _by_source(errors: Sequence[tuple[str, WordErrors]]) -> dict[str, float | None]:
    by_source: dict[str, list[WordErrors]] = {}
    for source, item in errors:
        if source:
            by_source.setdefault(source, []).append(item)
    return {source: pooled(items).wer for source, items in by_source.items()}


def word_error_rate(
    references: Sequence[str], hypotheses: Sequence[str], scoring: Scoring = ENGLISH_WORDS
) -> float | None:
    """Return the error rate as a fraction, all utterances pooled; None without a reference."""
    pairs = zip(references, hypotheses, strict=True)
    return pooled(word_errors(*pair, scoring) for pair in pairs).wer


def _simplified(text: str) -> str:
    """Return the text with simplified Chinese characters in place of traditional ones.

    One character stays one. The table is that of WeTextProcessing
    (https://github.com/wenet-e2e/WeTextProcessing), and then `_LEFT`.
    """
    from wetext.utils import preprocess

    result: str = preprocess(text, traditional_to_simple=True)
    return result.translate(_LEFT)


@cache
def _whispers(is_english: bool) -> Callable[[str], str]:
    """Return Whisper's normaliser of English (case, punctuation, numbers, spelling), or others."""
    # An optional package whose tables take a moment to build: import it only for a WER.
    from whisper_normalizer.basic import BasicTextNormalizer
    from whisper_normalizer.english import EnglishTextNormalizer

    normaliser: Callable[[str], str] = (
        EnglishTextNormalizer() if is_english else BasicTextNormalizer()
    )
    return normaliser


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: the first column aligned left, the numbers right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with `digits` decimals, or a dash for None."""
    if value is None:
        return NOTHING
    return f"{value:{'+' if sign else ''}.{digits}f}"


def percent(fraction: float | None, *, sign: bool = False) -> str:
    return number(None if fraction is None else 100 * fraction, 2, sign=sign)
