"""Answers to chunks of a live stream, made by hand."""

from conch.wire.result import Hypothesis, OpenUtterance, RollingPasses, Segment, Transcript, Word

ROLLING = RollingPasses(interval_ms=2000, made=1)


def words(text: str) -> tuple[Word, ...]:
    return tuple(Word(word, 0, 1, 0.5) for word in text.split())


def spoken(firm: str, tentative: str = "", newest: str = "") -> OpenUtterance:
    return OpenUtterance(0.0, words(firm), words(tentative), words(newest))


def segment(text: str, index: int, passes: int = 1, error: str = "") -> Segment:
    hypothesis = Hypothesis(text, 0, 0)
    return Segment(0.0, 1.0, (hypothesis,), index=index, passes=passes, error=error)


def answer(
    text: str,
    *segments: Segment,
    stable: str = "",
    utterance: OpenUtterance | None = None,
    rolling: RollingPasses | None = None,
    is_final: bool = False,
) -> Transcript:
    return Transcript(
        (Hypothesis(text, 0, 0),),
        segments,
        1.0,
        ("vad",),
        {},
        is_final,
        stable,
        utterance,
        rolling,
    )
