"""How a live stream goes on in another one: from which sample on, and one text of both.

A server that is lost takes the state of its streams with it. What it has told is kept: utterances
that have ended, and the firm words of the others. The audio from shortly before the last firm word
on is sent again. The new stream hears some firm words a second time, as the first word after a cut
is often misheard; `Continuation` leaves them out.

Nothing here sends anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from conch.wire.joining import is_within_word, joined_text
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.result import (
    Hypothesis,
    OpenUtterance,
    RollingPasses,
    Segment,
    Stage,
    Transcript,
    Word,
    text_of_words,
)
from conch.wire.shifted import has_last_text, shifted_segment, shifted_utterance

AGAIN_S = 0.4
"""Firm text that is heard again at least, in seconds, if the utterance has as much. With less, the
first new word is cut or misheard."""
LEAD_S = 2.0
"""Silence before speech that is heard again: two steps of a server, and what a quiet beginning
adds."""
NEAR_S = 0.3
"""How much later a word may be heard the second time."""
LOST = "lost"
"""`endpoint` of an utterance whose firm words alone are kept."""
NO_SECOND_PASS = "no second pass: the server was lost, and another stream went on"
"""`error` of such an utterance of a stream with two passes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the next stream has to begin."""

    at_s: float
    """Seconds from the start of the first stream."""
    again: tuple[str, ...] = ()
    """Firm words that it hears again."""
    until_s: float = 0.0
    """End of the last of them."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """An utterance that has ended and awaits its second pass."""

    segment: Segment
    firm: tuple[Word, ...]
    """Its firm words, as far as their times are known."""
    begins_s: float
    """Where its audio begins, at the latest."""


class Told:
    """What a live session has told so far, as far as another stream needs it to go on."""

    def __init__(self, *, shows_open: bool = True, base: Cut = Cut(0.0)) -> None:
        """Begin without text.

        Args:
            shows_open: Whether answers tell the utterance that is being spoken.
            base: Where the present stream began.
        """
        self._shows_open = shows_open
        self._pending: dict[int, _Pending] = {}
        self._open: OpenUtterance | None = None
        self._told_until_s = 0.0
        self._base = base
        self.audio_s = 0.0
        """Seconds of audio that were heard."""
        self.next_index = 0
        """Index of the next utterance that ends."""

    @property
    def first_pending(self) -> int:
        """Index of the first utterance that awaits its second pass; the next one without any."""
        return min(self._pending, default=self.next_index)

    def add(
        self,
        segments: Iterable[tuple[Segment, bool]],
        utterance: OpenUtterance | None,
        audio_s: float,
    ) -> None:
        """Take an answer.

        Args:
            segments: Its segments in order, and whether each has its last text.
            utterance: The utterance that is being spoken.
            audio_s: Seconds of audio that were heard.
        """
        self.end(segments)
        self._open = utterance
        self.audio_s = max(self.audio_s, audio_s)

    def end(self, segments: Iterable[tuple[Segment, bool]]) -> None:
        """Take the utterances that an answer has ended, and nothing else of it.

        Args:
            segments: As of `add`.
        """
        for segment, is_final in segments:
            if is_final:
                self._pending.pop(segment.index, None)
            elif segment.index in self._pending:
                before = self._pending[segment.index]
                self._pending[segment.index] = replace(before, segment=segment)
            elif segment.index >= self.next_index:
                self._pending[segment.index] = self._ended(segment)
            if segment.index >= self.next_index:
                self.next_index, self._open = segment.index + 1, None
                self._told_until_s = max(self._told_until_s, segment.end)

    def _ended(self, segment: Segment) -> _Pending:
        if self._open is not None:
            return _Pending(segment, self._open.firm, self._open.start)
        return _Pending(segment, (), max(self._told_until_s, segment.start - LEAD_S))

    def cut(self, stable: str = "") -> Cut:
        """Return where another stream has to begin to go on from here.

        Args:
            stable: The beginning of the text of the latest answer that no longer changes.
        """
        if self._pending:
            pending = self._pending[self.first_pending]
            told = self.firm_pending(stable)
            more = told[len(text_of_words(pending.firm)) :].split()
            cut = behind(pending.firm, pending.begins_s)
            if more:
                cut = Cut(cut.at_s, (*cut.again, *more), pending.segment.end)
        elif self._open is not None:
            cut = behind(self._open.firm, self._open.start)
        else:
            lead_s = self.audio_s - LEAD_S if self._shows_open else 0.0
            cut = Cut(max(self._told_until_s, lead_s))
        base = self._base
        at_s, until_s = max(cut.at_s, base.at_s), max(cut.until_s, base.until_s)
        return Cut(at_s, cut.again or base.again, until_s)

    def firm_pending(self, stable: str) -> str:
        """Return the firm text of the first utterance that awaits its second pass.

        It may have become firm with the answer that ended the utterance, and has no times then. The
        answer's stable text ends with it.

        Args:
            stable: As of `cut`.
        """
        pending = self._pending.get(self.first_pending)
        if pending is None:
            return ""
        text, known = pending.segment.text, text_of_words(pending.firm)
        if not text.startswith(known):
            return known
        ends = [
            place
            for place in range(len(known) + 1, len(text))
            if text[place] == " " or not is_within_word(text[:place], text[place:])
        ]
        for end in (len(text), *reversed(ends)):
            if stable.endswith(text[:end]):
                return text[:end]
        return known

    def settle(self, stable: str, *, has_second_pass: bool, has_words: bool) -> list[Segment]:
        """End what is not final with its firm words, and return it; the others come again.

        Args:
            stable: As of `cut`.
            has_second_pass: Whether utterances get a second pass, which these do not.
            has_words: Whether segments have their words.
        """
        error = NO_SECOND_PASS if has_second_pass else ""
        base = self.cut(stable)
        settled = []
        for index in sorted(self._pending):
            pending = self._pending[index]
            segment = pending.segment
            text = self.firm_pending(stable) if index == self.first_pending else ""
            words = pending.firm if has_words and text else ()
            settled.append(
                replace(
                    segment,
                    nbest=(replace(segment.nbest[0], text=text),),
                    words=words,
                    endpoint=LOST,
                    error=error,
                )
            )
        if not settled and self._open is not None and self._open.firm:
            firm = self._open.firm
            segment = Segment(
                start=self._open.start,
                end=max(self._open.start, firm[-1].end),
                nbest=(Hypothesis(text_of_words(firm), 0.0, am_score=0.0),),
                words=firm if has_words else (),
                index=self.next_index,
                endpoint=LOST,
                error=error,
            )
            self.next_index += 1
            settled.append(segment)
        self._pending, self._open, self._base = {}, None, base
        self._told_until_s = self.audio_s = base.at_s
        return settled


def behind(firm: Sequence[Word], begins_s: float) -> Cut:
    """Return where to begin so that all behind the firm words of an utterance is heard.

    The cut lies between two firm words, at least AGAIN_S before the end of the last one, or else at
    the beginning of the utterance. A word's times may be wrong by a part of that.

    Args:
        firm: Firm words with their times.
        begins_s: Start of the utterance, in seconds.
    """
    if not firm:
        return Cut(begins_s)
    until_s = firm[-1].end
    for index in range(len(firm) - 1, 0, -1):
        at_s = min((firm[index - 1].end + firm[index].start) / 2, firm[index].start)
        if at_s <= until_s - AGAIN_S:
            return Cut(max(begins_s, at_s), tuple(word.text for word in firm[index:]), until_s)
    return Cut(begins_s, tuple(word.text for word in firm), until_s)


class Again:
    """Leaves out of the first utterance of a stream what the stream before has told."""

    def __init__(self, cut: Cut, first_index: int, *, has_words: bool) -> None:
        """Begin before the first answer.

        Args:
            cut: Where the stream begins.
            first_index: Index of its first utterance.
            has_words: Whether segments keep their words.
        """
        self._cut, self._first_index, self._has_words = cut, first_index, has_words
        self._dropped: tuple[str, ...] = ()
        """Words that were left out of the open utterance last."""

    def shown(self, utterance: OpenUtterance, index: int) -> OpenUtterance:
        """Return the open utterance of this index without words that are heard again."""
        if index != self._first_index:
            return utterance
        count = self._num_again(utterance.words)
        self._dropped = tuple(word.text for word in utterance.words[:count])
        parts = []
        for part in (utterance.firm, utterance.tentative, utterance.newest):
            parts.append(part[count:])
            count = max(0, count - len(part))
        firm, tentative, newest = parts
        return replace(utterance, firm=firm, tentative=tentative, newest=newest)

    def ended(self, segment: Segment) -> Segment:
        """Return an utterance that has ended without words that are heard again."""
        words = segment.words if self._has_words else ()
        if segment.index != self._first_index or not self._cut.until_s:
            return replace(segment, words=words)
        if segment.words:
            count = self._num_again(segment.words)
            dropped = tuple(word.text for word in segment.words[:count])
        else:
            # Without times, only what was left out before, or is told word for word.
            dropped = max((self._dropped, self._cut.again), key=lambda it: _same(it, segment.text))
            dropped = dropped[: _same(dropped, segment.text)]
            count = 0
        best, *others = [
            replace(item, text=without_first(item.text, dropped)) for item in segment.nbest
        ]
        if text_of_words(segment.words) == segment.text:
            best = replace(best, text=text_of_words(segment.words[count:]))
        start = min(segment.end, max(segment.start, self._cut.until_s))
        return replace(segment, start=start, nbest=(best, *others), words=words[count:])

    def _num_again(self, words: Sequence[Word]) -> int:
        """Return how many words at the beginning were told by the stream before.

        These lie within the audio that it told. The last one may be heard a little later.
        """
        until_s = self._cut.until_s
        count = sum(1 for _ in takewhile(lambda word: _middle(word) < until_s, words))
        last = plain(self._cut.again[-1]) if self._cut.again else ""
        is_missing = not count or plain(words[count - 1].text) != last
        if is_missing and last and count < len(words) and last == plain(words[count].text):
            count += _middle(words[count]) < until_s + NEAR_S
        return count


class Continuation:
    """One transcript of the streams of a session: times, indices and firm text go on."""

    def __init__(self, options: RecognitionOptions, sample_rate: int) -> None:
        """Begin the first stream.

        Args:
            options: Options of all streams.
            sample_rate: Hz of the audio.
        """
        self._options, self._rate = options, sample_rate
        self._told = Told(shows_open=options.partials)
        self.start = 0
        """First sample of the present stream, on the clock of the first one."""
        self._first_index = 0
        self._again: Again | None = None
        """Leaves out what is heard again; None in the first stream."""
        self._stable = ""
        self._texts: dict[int, tuple[str, float]] = {}
        """Text and end of the utterances that an answer may have to tell."""
        self._changed: dict[int, Segment] = {}
        """What the next answer tells."""
        self._path: dict[str, None] = {}
        self._stages: dict[str, Stage] = {}
        self._rolling_before: RollingPasses | None = None
        """Rolling passes of the streams before, and of all."""
        self._rolling: RollingPasses | None = None
        self._latest: Transcript | None = None
        self._duration = 0.0

    @property
    def kept_from(self) -> int:
        """First sample that another stream would have to hear."""
        at = int(self._told.cut(self._stable).at_s * self._rate)
        return max(self.start, at)

    def take(self, answer: Transcript, *, ends: bool) -> None:
        """Take an answer of the present stream.

        Args:
            answer: The answer.
            ends: Whether it was asked for; a gateway that stops ends a stream early, in the middle
                of a word, and what has not ended before counts for nothing.
        """
        is_cut = answer.is_final and not ends
        if is_cut:
            whole = [item for item in answer.segments if item.endpoint != "end"]
            answer = replace(answer, segments=tuple(whole), utterance=None)
        seconds = self.start / self._rate
        segments, utterance = list(answer.segments), answer.utterance
        if self._again is not None:
            moved = [shifted_segment(item, seconds, self._first_index) for item in segments]
            segments = [self._again.ended(item) for item in moved]
            utterance = utterance and shifted_utterance(utterance, seconds)
        ended = [(item, has_last_text(item, answer)) for item in segments]
        self._told.end(ended)
        if utterance is not None and self._again is not None:
            utterance = self._again.shown(utterance, self._told.next_index)
        if not is_cut:
            self._told.add((), utterance, seconds + answer.duration)
        self._keep(segments)
        self._path |= dict.fromkeys(answer.path)
        for name, stage in answer.stages.items():
            before = self._stages.get(name, Stage(0, 0.0))
            self._stages[name] = Stage(before.calls + stage.calls, before.ms + stage.ms)
        if answer.rolling is not None:
            self._rolling = _added(self._rolling_before, answer.rolling)
        self._latest = answer
        # A stream that began elsewhere has its steps at other places.
        self._duration = max(self._duration, round(seconds + answer.duration, 3))
        if self._again is None:
            self._stable = answer.stable
        else:
            self._latest = replace(answer, utterance=utterance, duration=self._duration)
            self._stable = self._stable_text(answer, utterance)

    def _keep(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            self._changed[segment.index] = segment
            self._texts[segment.index] = (segment.text, segment.end)

    def tell(self) -> Transcript:
        """Return all that was taken since it was told last, as one answer."""
        latest = self._latest
        assert latest is not None
        if self._again is not None:
            latest = self._joined(latest)
        self._changed, self._path, self._stages = {}, {}, {}
        self._forget()
        return latest

    def _joined(self, latest: Transcript) -> Transcript:
        segments = tuple(self._changed[index] for index in sorted(self._changed))
        if latest.is_final:
            nbest = joined([item.nbest for item in segments], self._options.nbest)
            stable = nbest[0].text
        else:
            texts = [text for _, (text, _) in sorted(self._texts.items()) if text]
            if latest.utterance is not None:
                texts.append(latest.utterance.text)
            text = joined_text(texts)
            nbest, stable = (replace(latest.nbest[0], text=text),), self._stable
        return replace(
            latest,
            nbest=nbest,
            segments=segments,
            path=tuple(self._path),
            stages=dict(self._stages),
            stable=stable,
            rolling=self._rolling,
        )

    def _forget(self) -> None:
        """Drop the texts that the next answer has not to tell again."""
        history_s = self._options.history_s if self._options.repeat_text else -1
        oldest_s = self._told.audio_s - history_s if history_s else float("-inf")
        first = self._told.first_pending
        self._texts = {
            index: item
            for index, item in self._texts.items()
            if index >= first or (history_s >= 0 and item[1] >= oldest_s)
        }

    def _stable_text(self, answer: Transcript, utterance: OpenUtterance | None) -> str:
        """Return the beginning of the text that no longer changes."""
        first = self._told.first_pending
        texts = [text for index, (text, _) in sorted(self._texts.items()) if index < first]
        if first < self._told.next_index:
            texts.append(self._told.firm_pending(answer.stable))
        elif utterance is not None:
            texts.append(text_of_words(utterance.firm))
        return joined_text(texts)

    def resume(self, kept_from: int) -> None:
        """Begin another stream, behind what is firm.

        Args:
            kept_from: First sample of the audio that is kept; what lies before is not heard again.
        """
        cut = self._told.cut(self._stable)
        start = max(self.kept_from, kept_from)
        has_second_pass = self._latest is not None and self._latest.rolling is not None
        settled = self._told.settle(
            self._stable,
            has_second_pass=has_second_pass,
            has_words=self._options.word_timestamps,
        )
        self._keep(settled)
        self.start, self._first_index = start, self._told.next_index
        self._rolling_before = self._rolling
        self._again = Again(cut, self._first_index, has_words=self._options.word_timestamps)


def without_first(text: str, words: Sequence[str]) -> str:
    """Return a text without the words that it begins with, as far as it does."""
    ends = _ends(words, text)
    return " ".join(text[ends[-1] :].split()) if ends else text


def _same(words: Sequence[str], text: str) -> int:
    """Return how many of the words a text begins with."""
    return len(_ends(words, text))


def _ends(words: Sequence[str], text: str) -> list[int]:
    """Return where in a text the words end that it begins with, punctuation included."""
    ends: list[int] = []
    for word in words:
        end = _end_of(plain(word), text, ends[-1] if ends else 0)
        if end is None:
            break
        ends.append(end)
    return ends


def _end_of(word: str, text: str, start: int) -> int | None:
    """Return where a word without case and punctuation ends in a text; None if it is another."""
    place, found = start, ""
    while place < len(text) and len(found) < len(word) and not (found and text[place].isspace()):
        found += plain(text[place])
        place += 1
    if found != word:
        return None
    while place < len(text) and not text[place].isspace() and not text[place].isalnum():
        place += 1
    is_whole = place == len(text) or text[place].isspace()
    return place if is_whole or not is_within_word(text[:place], text[place:]) else None


def plain(word: str) -> str:
    """Return a word without case and punctuation."""
    return "".join(char for char in word.casefold() if char.isalnum())


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2


def _added(before: RollingPasses | None, now: RollingPasses) -> RollingPasses:
    if before is None:
        return now
    return replace(
        now,
        made=before.made + now.made,
        skipped=before.skipped + now.skipped,
        refused=before.refused + now.refused,
    )
