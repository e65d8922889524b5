"""Continue a live session in another stream, without a gap and without a word twice.

`ResumeState` finds where the next stream has to begin. It begins a little earlier, because the
first word after a cut is often misheard; `OverlapRemoval` removes the words that come twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from conch.wire.joining import is_within_word
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Word, text_of_words

OVERLAP_S = 0.4
"""Least seconds of firm text to hear again, if the utterance has as much. With less, the first new
word is cut or misheard."""
LEAD_S = 2.0
"""Seconds of silence to hear again before speech: two steps of a server, and time for a quiet
beginning."""

NEAR_S = 0.3
"""Seconds by which a repeated word may come later."""
LOST = "lost"
"""`endpoint` of an utterance that keeps only its firm words."""
NO_SECOND_PASS = "no second pass: the server was lost"
"""`error` of a lost utterance in a stream with two passes."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Point at which the next stream has to begin."""

    at_s: float
    """Seconds from the start of the first stream."""
    overlap: tuple[str, ...] = ()
    """Firm words that the next stream hears again."""
    until_s: float = 0.0
    """End of the last of these words, in seconds."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """An utterance that has ended and awaits its second pass."""

    segment: Segment
    firm: tuple[Word, ...]
    """Firm words whose times are known."""
    begins_s: float
    """Latest time at which the audio begins, in seconds."""


class ResumeState:
    """Keeps what the next stream needs of the answers so far; the current one began at `base`."""

    def __init__(self, base: ResumePoint = ResumePoint(0.0)) -> None:
        self.shows_open = True
        """Whether answers have the utterance that is being spoken."""
        self._pending: dict[int, _Pending] = {}
        self._open: OpenUtterance | None = None
        self._ended_until_s = 0.0
        self._base = base
        self.audio_s = 0.0
        self.next_index = 0
        """Index of the next utterance that ends."""

    @property
    def first_pending(self) -> int:
        """Index of the first utterance that awaits its second pass; `next_index` if none does."""
        return min(self._pending, default=self.next_index)

    @property
    def is_pending(self) -> bool:
        """Whether the text may still change without further audio."""
        return bool(self._pending) or self._open is not None

    def begin(self, at_s: float) -> None:
        """Begin a stream behind one that has ended."""
        self._base = ResumePoint(at_s, (), self._base.until_s)
        self._pending, self._open = {}, None
        self._ended_until_s = self.audio_s = at_s

    def hear(self, utterance: OpenUtterance | None, audio_s: float) -> None:
        """Add what is being spoken, after so many seconds of audio; see `end`."""
        self._open = utterance
        self.audio_s = max(self.audio_s, audio_s)

    def end(self, segments: Iterable[tuple[Segment, bool]]) -> dict[int, bool]:
        """Add the segments of an answer in order, each with whether its text is the last.

        Return that by index for the segments that are new, or awaited their second pass.
        """
        news = {}
        for segment, is_final in segments:
            if segment.index in self._pending or segment.index >= self.next_index:
                news[segment.index] = is_final
            if is_final:
                self._pending.pop(segment.index, None)
            elif segment.index in self._pending:
                before = self._pending[segment.index]
                self._pending[segment.index] = replace(before, segment=segment)
            elif segment.index >= self.next_index:
                begins_s = max(self._ended_until_s, segment.start - LEAD_S)
                known = (
                    ((), begins_s) if self._open is None else (self._open.firm, self._open.start)
                )
                self._pending[segment.index] = _Pending(segment, *known)
            if segment.index >= self.next_index:
                self.next_index, self._open = segment.index + 1, None
                self._ended_until_s = max(self._ended_until_s, segment.end)
        return news

    def cut(self, stable: str = "") -> ResumePoint:
        """Return where the next stream has to begin, by the `stable` text of the latest answer."""
        if self._pending:
            pending = self._pending[self.first_pending]
            text = self.firm_pending(stable)
            more = text[len(text_of_words(pending.firm)) :].split()
            cut = cut_behind(pending.firm, pending.begins_s)
            if more:
                cut = ResumePoint(cut.at_s, (*cut.overlap, *more), pending.segment.end)
        elif self._open is not None:
            cut = cut_behind(self._open.firm, self._open.start)
        else:
            lead_s = self.audio_s - LEAD_S if self.shows_open else 0.0
            cut = ResumePoint(max(self._ended_until_s, lead_s))
        base = self._base
        at_s, until_s = max(cut.at_s, base.at_s), max(cut.until_s, base.until_s)
        return ResumePoint(at_s, cut.overlap or base.overlap, until_s)

    def firm_pending(self, stable: str) -> str:
        """Return the firm text of the first utterance that awaits its second pass; see `cut`.

        Words that become firm with the answer that ends the utterance have no times. The stable
        text of that answer ends with them.
        """
        pending = self._pending.get(self.first_pending)
        if pending is None:
            return ""
        text, known = pending.segment.text, text_of_words(pending.firm)
        if not text.startswith(known):
            return known
        ends = [
            index
            for index in range(len(known) + 1, len(text))
            if text[index] == " " or not is_within_word(text[:index], text[index:])
        ]
        for end in (len(text), *reversed(ends)):
            if stable.endswith(text[:end]):
                return text[:end]
        return known

    def settle(self, stable: str, *, has_second_pass: bool, has_words: bool) -> list[Segment]:
        """End and return the utterances without a last text, with their firm words only.

        The next stream hears their other words again.
        """
        base = self.cut(stable)
        if not self._pending and self._open is not None and self._open.firm:
            start, firm = self._open.start, self._open.firm
            none = (Hypothesis("", 0.0, am_score=0.0),)
            spoken = Segment(start, max(start, firm[-1].end), none, index=self.next_index)
            self._pending[self.next_index] = _Pending(spoken, firm, start)
            self.next_index += 1
        settled = []
        for index, pending in sorted(self._pending.items()):
            text = self.firm_pending(stable) if index == self.first_pending else ""
            settled.append(
                replace(
                    pending.segment,
                    nbest=(replace(pending.segment.nbest[0], text=text),),
                    words=pending.firm if has_words and text else (),
                    endpoint=LOST,
                    error=NO_SECOND_PASS if has_second_pass else "",
                )
            )
        self._pending, self._open, self._base = {}, None, base
        self._ended_until_s = self.audio_s = base.at_s
        return settled


def cut_behind(firm: Sequence[Word], begins_s: float) -> ResumePoint:
    """Return where to begin to hear everything after the firm words of an utterance.

    The cut lies between two firm words, at least OVERLAP_S before the end of the last one, or else
    at `begins_s`, the beginning of the utterance. OVERLAP_S is larger than the error of a word's
    times.
    """
    if not firm:
        return ResumePoint(begins_s)
    until_s = firm[-1].end
    for index in range(len(firm) - 1, 0, -1):
        at_s = min((firm[index - 1].end + firm[index].start) / 2, firm[index].start)
        if at_s <= until_s - OVERLAP_S:
            return ResumePoint(
                max(begins_s, at_s), tuple(word.text for word in firm[index:]), until_s
            )
    return ResumePoint(begins_s, tuple(word.text for word in firm), until_s)


class OverlapRemoval:
    """Removes from the first utterance of a stream the words of the stream before.

    `first_index` is that of the stream's first utterance, and `has_words` whether segments keep
    their words.
    """

    def __init__(self, cut: ResumePoint, first_index: int, *, has_words: bool) -> None:
        self._cut, self._first_index, self._has_words = cut, first_index, has_words
        self._has_ended = False
        """Whether the first utterance has ended."""
        self._dropped: tuple[str, ...] = ()
        """Words that were last removed from the open utterance."""

    def of_utterance(self, utterance: OpenUtterance) -> OpenUtterance:
        """Return the open utterance without words that are heard again."""
        if self._has_ended:
            return utterance
        count = self._num_repeated(utterance.words)
        self._dropped = tuple(word.text for word in utterance.words[:count])
        parts = []
        for part in (utterance.firm, utterance.tentative, utterance.newest):
            parts.append(part[count:])
            count = max(0, count - len(part))
        firm, tentative, newest = parts
        return replace(utterance, firm=firm, tentative=tentative, newest=newest)

    def of_segment(self, segment: Segment) -> Segment:
        """Return an utterance that has ended without words that are heard again."""
        self._has_ended = True
        words = segment.words if self._has_words else ()
        if segment.index != self._first_index or not self._cut.until_s:
            return replace(segment, words=words)
        if segment.words:
            count = self._num_repeated(segment.words)
            dropped = tuple(word.text for word in segment.words[:count])
        else:
            # Without times, remove only the words removed before, or repeated word for word.
            repeats = [
                candidate[: len(_ends(candidate, segment.text))]
                for candidate in (self._dropped, self._cut.overlap)
            ]
            dropped, count = max(repeats, key=len), 0
        best, *others = [
            replace(item, text=without_first(item.text, dropped)) for item in segment.nbest
        ]
        if text_of_words(segment.words) == segment.text:
            best = replace(best, text=text_of_words(segment.words[count:]))
        start = min(segment.end, max(segment.start, self._cut.until_s))
        return replace(segment, start=start, nbest=(best, *others), words=words[count:])

    def _num_repeated(self, words: Sequence[Word]) -> int:
        """Return how many words at the beginning repeat those of the stream before.

        They lie in the audio that it has answered. The last one may be heard a little later.
        """
        until_s = self._cut.until_s
        count = sum(1 for _ in takewhile(lambda word: _middle(word) < until_s, words))
        last = plain(self._cut.overlap[-1]) if self._cut.overlap else ""
        is_missing = not count or plain(words[count - 1].text) != last
        if is_missing and last and count < len(words) and last == plain(words[count].text):
            count += _middle(words[count]) < until_s + NEAR_S
        return count


def without_first(text: str, words: Sequence[str]) -> str:
    """Return a text without those of the words that it begins with."""
    ends = _ends(words, text)
    return " ".join(text[ends[-1] :].split()) if ends else text


def _ends(words: Sequence[str], text: str) -> list[int]:
    """Return the end of each of the words that a text begins with, after its punctuation."""
    ends: list[int] = []
    for word in words:
        end = _end_of(plain(word), text, ends[-1] if ends else 0)
        if end is None:
            break
        ends.append(end)
    return ends


def _end_of(word: str, text: str, start: int) -> int | None:
    """Return the end in a text of a plain word that starts at `start`; None for another word."""
    index, matched = start, ""
    while (
        index < len(text) and len(matched) < len(word) and not (matched and text[index].isspace())
    ):
        matched += plain(text[index])
        index += 1
    if matched != word:
        return None
    while index < len(text) and not text[index].isspace() and not text[index].isalnum():
        index += 1
    is_whole = index == len(text) or text[index].isspace()
    return index if is_whole or not is_within_word(text[:index], text[index:]) else None


def plain(word: str) -> str:
    """Return a word without case and punctuation."""
    return "".join(char for char in word.casefold() if char.isalnum())


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2
