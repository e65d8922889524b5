"""Cut words into the cues of subtitles: what is on the screen, from when to when.

The rules are those that broadcasters share (BBC Subtitle Guidelines, Netflix Timed Text Style
Guide): short lines, time to read, breaks at phrases. Cues are runs of words, and each run has a
cost. A dynamic programme finds the cheapest runs (Bellman, 1954, "The theory of dynamic
programming"), in time linear in the words.

A character counts by its columns: wide ones, such as Chinese, count two.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from math import floor, inf, nan
from typing import NamedTuple

from conch.wire.joining import is_unspaced, is_within_syllable, separator, separators
from conch.wire.result import Segment, Transcript, Word
from conch.wire.turns import cut_by_speaker

MAX_LINE_CHARS = 42
"""Columns of a line; a longer word has a line of its own."""
MAX_LINES = 2
MIN_CUE_MS, MAX_CUE_MS = 1000, 7000
MAX_CHARS_PER_S = 17
"""Columns that a reader takes in. A cue stays up to the next one where that helps."""
GAP_MS = 83
"""Between cues: two frames of 24 a second. Without it they would seem to be one."""
MIN_GAP_MS = 500
"""A shorter gap is closed up to GAP_MS: it would flicker."""
LONG_PAUSE_MS = 1000
"""No cue spans a longer pause."""

# Costs. Those above 30 are for limits: no phrase is worth one of them.
_CUE = 3.0  # of each cue, so that there are not more than it takes
_FULL = 2.0  # of a cue of two full lines, less for a shorter one: it balances cues
_SHORT, _SHORT_PER_S = 60.0, 40.0  # below MIN_CUE_MS, and for each second that it lacks
_ONE_WORD = 40.0
_FAST, _FAST_PER_SHARE = 8.0, 30.0  # above MAX_CHARS_PER_S, and for each time it is exceeded
_SENTENCE, _CLAUSE, _PHRASE, _WORDS, _BOUND = 0.0, 2.0, 4.0, 7.0, 11.0
"""Costs of the end of a cue: after a sentence, after a clause, before a word that begins a phrase,
between others, after a word that needs the next one."""
_PAUSE_MS = 600  # A pause as long makes a good end anywhere; a shorter one a better end.
_INNER_SENTENCE = 3.0  # of a sentence's end within a cue
_INNER_PAUSE_MS, _INNER_PAUSE_PER_S = 300, 20.0  # of a pause within a cue, for its time above
_TOP_HEAVY, _UNEVEN = 0.5, 0.1  # of a first line that is longer, and for each column more or less

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "।", "։")  # noqa: RUF001
CLAUSE_ENDS = (",", ";", ":", "—", "–", "、", "，", "；", "：", "،", "؛")  # noqa: RUF001
CLOSING = "\"')]}\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}»」』）】》"  # noqa: RUF001
_BEGINNINGS = """
and but or nor so yet because although though while if unless until when whenever where whereas that
which who whom whose as than then after before since about above across against along among around
at behind below beneath beside between beyond by despite during for from in inside into like near of
off on onto out over through to toward towards under upon with within without
und oder aber denn sondern weil dass wenn ob obwohl damit während bevor nachdem als wie mit von zu
bei nach aus für gegen ohne durch über unter vor hinter neben zwischen
et ou mais donc car que qui dont où quand lorsque parce puisque si comme avec sans pour par dans sur
sous chez vers entre depuis pendant avant après de
y e o u pero sino porque cuando donde aunque mientras como con sin para por hasta sobre según
"""
_LINKS = """
a an the this these those my your his her its our their no every each some any of to in on at for
from with by and or but very not mr. mrs. ms. dr. st. prof.
der die das den dem des ein eine einen einem einer mein dein sein ihr unser und oder
le la les un une du de mon ma mes ton ta tes son sa ses et ou
el los las una unos unas mi tu su y o
"""
_BEGIN_PHRASES = frozenset(_BEGINNINGS.split())
"""Conjunctions, relative pronouns and prepositions of English, German, French and Spanish."""
_NEED_THE_NEXT = frozenset(_LINKS.split())
"""Articles, possessives, and what else hardly ends a line."""
Labels = tuple[int, int]
"""Columns before the text of the first cue of words, and of each later one."""
_TITLES = ("mr.", "mrs.", "ms.", "dr.", "st.", "prof.")


@dataclass(frozen=True, slots=True)
class Cue:
    """The lines of a subtitle, shown from `start_ms` to `end_ms`."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    speaker: str = ""
    """Who speaks, if known; the first line begins with that and a colon where it changes."""


class SpacedWord(NamedTuple):
    """A word with what stands before it."""

    space: str
    text: str
    start_ms: int
    end_ms: int


def cues(transcript: Transcript) -> list[Cue]:
    """Return subtitle cues in order of time. No cue is empty, and cues of a channel do not overlap.

    A cue has at most MAX_LINES lines of MAX_LINE_CHARS. If the next words and the end of the audio
    allow it, a cue takes MIN_CUE_MS to MAX_CUE_MS, and as long as a reader of MAX_CHARS_PER_S
    needs. It does not hold one word if there are more around it. Words of a segment without word
    times share its time. If the speakers are known, each cue has one; or else, if the channels are
    split, its channel number. It begins with that where the cue before has another one.
    """
    is_split = len(transcript.channels) > 1
    audio_end_ms = floor(transcript.duration * 1000) or inf
    made: list[tuple[str, Cue]] = []
    for channel, segments in transcript.by_channel():
        parts = (part for segment in segments for part in cut_by_speaker(segment))
        said = groupby(parts, lambda segment: segment.speaker)
        runs = [(who, tokens) for who, run in said if (tokens := tokens_of(list(run)))]
        next_ms, end_ms = inf, audio_end_ms
        for who, tokens in reversed(runs):
            label = f"{who}: " if who else f"[{channel}] " if is_split else ""
            tokens, end_ms = _begun_before(tokens, end_ms), end_ms - len(tokens)
            next_ms = max(next_ms, tokens[-1].start_ms + 1)
            # Any cue may follow one of another channel.
            widths = columns(label), columns(label) * is_split
            run_cues = channel_cues(tokens, widths, next_ms, audio_end_ms)
            made += [(label, replace(cue, speaker=who)) for cue in run_cues]
            next_ms = tokens[0].start_ms
    made.sort(key=lambda item: item[1].start_ms)
    befores = ["", *(label for label, _ in made)]
    return [
        cue if label == before else replace(cue, lines=(label + cue.lines[0], *cue.lines[1:]))
        for before, (label, cue) in zip(befores, made, strict=False)
    ]


def _begun_before(tokens: Sequence[SpacedWord], end_ms: float) -> list[SpacedWord]:
    """Return words that begin before the end of the audio, which an alignment may exceed."""
    latest = [max(0, end_ms - left) for left in range(len(tokens), 0, -1)]
    return [
        token if token.start_ms <= ms else token._replace(start_ms=int(ms), end_ms=int(ms))
        for token, ms in zip(tokens, latest, strict=True)
    ]


def channel_cues(
    tokens: Sequence[SpacedWord], labels: Labels, next_ms: float = inf, audio_end_ms: float = inf
) -> list[Cue]:
    """Return cues of words with rising starts; others begin at `next_ms`."""
    made: list[Cue] = []
    first = 0
    for index, token in enumerate(tokens, 1):
        is_last = index == len(tokens)
        if is_last or tokens[index].start_ms - token.end_ms > LONG_PAUSE_MS:
            until_ms = next_ms if is_last else tokens[index].start_ms
            made += Block(tokens[first:index], until_ms, labels, audio_end_ms).cues()
            first, labels = index, (labels[1], labels[1])
    return made


class Block:
    """Words without a long pause between them, and what each cue of them would cost."""

    def __init__(
        self, tokens: Sequence[SpacedWord], next_ms: float, labels: Labels, audio_end_ms: float
    ) -> None:
        """Measure the words; the next one starts at `next_ms`, which is infinity without one."""
        self._tokens, self._labels, self._audio_end_ms = tokens, labels, audio_end_ms
        self._starts = [*(token.start_ms for token in tokens), next_ms]
        self._spaces = [columns(token.space) for token in tokens]
        # At least one each, so that a cue has a bounded number of words.
        widths = (max(1, columns(token.text)) for token in tokens)
        steps = (space + width for space, width in zip(self._spaces, widths, strict=True))
        self._widths = [0, *accumulate(steps)]
        """Columns up to each word, with the spaces."""
        pairs = list(pairwise(tokens))
        self._ends = [*(break_cost(*pair) for pair in pairs), 0.0]
        """Cost of the end of a cue after each word."""
        self._inner = [0.0, *accumulate(inner_cost(*pair) for pair in pairs)]
        """Cost of the ends and pauses within a cue, up to each word."""

    def cues(self) -> list[Cue]:
        """Return the cues that cost least in all."""
        best, begins = [0.0], [0]
        for end in range(1, len(self._tokens) + 1):
            costs: dict[int, float] = {}
            for start in range(end - 1, -1, -1):
                if not self.fits(start, end):
                    break
                costs[start] = best[start] + self.cost(start, end)
            begins.append(min(costs, key=costs.__getitem__))
            best.append(costs[begins[-1]])
        cuts = [len(self._tokens)]
        while cuts[-1]:
            cuts.append(begins[cuts[-1]])
        return [self._cue(start, end) for end, start in pairwise(cuts)][::-1]

    def _width(self, start: int, end: int) -> int:
        return self._widths[end] - self._widths[start] - self._spaces[start]

    def fits(self, start: int, end: int) -> bool:
        """Return whether words can share a cue; one word always has one."""
        if end - start == 1:
            return True
        if self._tokens[end - 1].end_ms - self._tokens[start].start_ms > MAX_CUE_MS:
            return False
        room = MAX_LINE_CHARS - self._labels[start > 0]
        if self._width(start, end) <= room:
            return True
        second = bisect_right(self._widths, self._widths[start] + self._spaces[start] + room) - 1
        return second > start and self._width(second, end) <= MAX_LINE_CHARS

    def cost(self, start: int, end: int) -> float:
        """Return the cost of a cue of the words from `start` up to `end`."""
        width = self._labels[start > 0] + self._width(start, end)
        # Words that an alignment puts behind the audio may have no time at all.
        shown_ms = max(1, self.end_ms(start, end) - self._tokens[start].start_ms)
        share = width / (MAX_LINES * MAX_LINE_CHARS)
        cost = _CUE + _FULL * (share * share)
        if end - start == 1:
            cost += _ONE_WORD
        if shown_ms < MIN_CUE_MS:
            cost += _SHORT + _SHORT_PER_S * (MIN_CUE_MS - shown_ms) / 1000
        if width * 1000 > MAX_CHARS_PER_S * shown_ms:
            speed = width * 1000 / (MAX_CHARS_PER_S * shown_ms)
            cost += _FAST + _FAST_PER_SHARE * (min(speed, 3.0) - 1.0)
        return cost + (self._inner[end - 1] - self._inner[start]) + self._ends[end - 1]

    def end_ms(self, start: int, end: int) -> int:
        """Return the end of a cue: when its words are said and read, or the next cue comes."""
        start_ms, next_ms = self._tokens[start].start_ms, self._starts[end]
        latest = int(max(start_ms + 1, min(start_ms + MAX_CUE_MS, self._audio_end_ms)))
        if next_ms < inf:
            has_room = next_ms - start_ms > 2 * GAP_MS
            latest = min(latest, int(next_ms) - GAP_MS if has_room else int(next_ms))
        width = self._labels[start > 0] + self._width(start, end)
        reading_ms = -(-width * 1000 // MAX_CHARS_PER_S)
        said_ms = max(self._tokens[end - 1].end_ms, start_ms + 1)
        end_ms = min(max(said_ms, start_ms + max(MIN_CUE_MS, reading_ms)), latest)
        return latest if next_ms - end_ms < MIN_GAP_MS else end_ms

    def _cue(self, start: int, end: int) -> Cue:
        second = self._second_line(start, end)
        lines = [(start, second), (second, end)] if second else [(start, end)]
        texts = [
            "".join(token.space + token.text for token in self._tokens[first:behind]).lstrip()
            for first, behind in lines
        ]
        return Cue(self._tokens[start].start_ms, self.end_ms(start, end), tuple(texts))

    def _second_line(self, start: int, end: int) -> int:
        """Return the first word of the second line; 0 if there is one line."""
        room = MAX_LINE_CHARS - self._labels[start > 0]
        if self._width(start, end) <= room:
            return 0
        costs = {}
        for second in range(start + 1, end):
            first, rest = self._width(start, second), self._width(second, end)
            if first <= room and rest <= MAX_LINE_CHARS:
                first += self._labels[start > 0]
                cost = self._ends[second - 1] + _UNEVEN * abs(first - rest)
                costs[second] = cost + (_TOP_HEAVY if first > rest else 0.0)
        return min(costs, key=costs.__getitem__, default=0)


def break_cost(token: SpacedWord, after: SpacedWord) -> float:
    """Return the cost of the end of a cue or line between two words.

    Punctuation is the best place, then before a word that begins a phrase. A pause makes each
    better.
    """
    word = token.text.lower()
    bare = word.rstrip(CLOSING)
    if bare in _TITLES:
        cost = _BOUND
    elif bare.endswith(SENTENCE_ENDS):
        cost = _SENTENCE
    elif bare.endswith(CLAUSE_ENDS):
        cost = _CLAUSE
    elif word in _NEED_THE_NEXT:
        cost = _BOUND
    else:
        cost = _PHRASE if after.text.lower() in _BEGIN_PHRASES else _WORDS
    pause_ms = min(after.start_ms - token.end_ms, _PAUSE_MS)
    return cost * (1.0 - pause_ms / _PAUSE_MS)


def inner_cost(token: SpacedWord, after: SpacedWord) -> float:
    """Return the cost of a cue that spans the place between two words."""
    pause_ms = after.start_ms - token.end_ms - _INNER_PAUSE_MS
    cost = _INNER_PAUSE_PER_S * pause_ms / 1000 if pause_ms > 0 else 0.0
    return cost + (_INNER_SENTENCE if break_cost(token, after) == 0.0 else 0.0)


def tokens_of(segments: Sequence[Segment]) -> list[SpacedWord]:
    """Return the words of one channel, with starts that rise by a millisecond at least.

    An alignment may give words that overlap or take no time. A word ends where the next begins, at
    the latest.
    """
    tokens: list[SpacedWord] = []
    said = ""
    for segment in segments:
        words = timed_words(segment)
        spaces = separators(segment.text, [word.text for word in words])
        for index, word in enumerate(words):
            space = spaces[index] if index else separator(said, word.text)
            start_ms = milliseconds(word.start)
            if tokens:
                before = tokens[-1]
                start_ms = max(start_ms, before.start_ms + 1)
                tokens[-1] = before._replace(end_ms=min(before.end_ms, start_ms))
            end_ms = max(milliseconds(word.end), start_ms)
            tokens.append(SpacedWord(space, word.text, start_ms, end_ms))
            said = word.text
    return tokens


def timed_words(segment: Segment) -> list[Word]:
    """Return the words; if none is timed, those of the text, with times by their length."""
    words = [replace(word, text=word.text.strip()) for word in segment.words]
    if words := [word for word in words if word.text]:
        return words
    texts = pieces_of(segment.text)
    ends = list(accumulate(map(columns, texts)))
    scale = (segment.end - segment.start) / max([1, *ends])
    starts = [0, *ends]
    return [
        Word(text, segment.start + start * scale, segment.start + end * scale, nan)
        for text, start, end in zip(texts, starts, ends, strict=False)
    ]


def pieces_of(text: str) -> list[str]:
    """Return the words of a text. In scripts without spaces each letter is one.

    Marks and punctuation belong to the letter before, opening brackets to the one after.
    """
    pieces: list[str] = []
    for word in text.split():
        for is_word, run in groupby(_letters(word), is_unspaced):
            letters = list(run)
            pieces += letters if is_word else ["".join(letters)]
    return pieces


def _letters(word: str) -> list[str]:
    """Return the characters of a word, each with the others of its syllable and its marks."""
    starts = [0]
    is_open = False
    for index, (before, char) in enumerate(zip(" " + word, word, strict=False)):
        opens = unicodedata.category(char) in ("Ps", "Pi")
        is_mark = not opens and unicodedata.category(char)[0] not in "LN"
        if index and not (is_open or is_mark or is_within_syllable(before, char)):
            starts.append(index)
        is_open = opens or (is_open and is_mark)
    return [word[start:end] for start, end in pairwise([*starts, len(word)])]


def columns(text: str) -> int:
    """Return the columns that a text takes; wide characters take two, marks on a letter none.

    Wide ones are W and F of Unicode Standard Annex 11.

    >>> columns("Größe"), columns("你好")
    (5, 4)
    """
    if text.isascii():
        return len(text)
    shown = [char for char in text if unicodedata.category(char) not in ("Mn", "Me", "Cf")]
    return len(shown) + sum(unicodedata.east_asian_width(char) in "WF" for char in shown)


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds, halves rounded up, none below 0."""
    return max(0, floor(seconds * 1000 + 0.5))
