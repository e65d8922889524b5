"""Who speaks in a live stream: a state machine that takes what the networks hear, window by window.

Segmentation hears short windows that overlap, and tells apart who speaks in each. What one says
alone is embedded, and so known as a voice or taken for a stranger. Two strangers that sound alike
are a new voice. The windows that cover a frame vote on who speaks in it, for SETTLE_S; then it is
settled. At the end, all that was embedded is clustered, and the letters of the stream stay with the
voices that agree.

Nothing here calls a component. A frame is one of `speaker_segmentation`, counted from the start of
the stream; voices are numbered from 0 in the order in which they were found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from conch.component import SAMPLE_RATE, Array, FloatArray, IntArray, unit
from conch.families.speakers import FRAME_FIELD, FRAME_SAMPLES
from conch.families.speakers.assignment import LEAST_S, VoiceTurn
from conch.families.speakers.clustering import MOST_PIECES, one_to_one, sure_voices
from conch.families.speakers.pieces import WINDOW_S, runs_of, second_at, votes
from conch.wire.turns import PAUSE_S

FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
SURE_S = 0.97
"""Shortest piece that finds voices, in seconds."""
CLOSED, LEAST = round(PAUSE_S / FRAME_S), round(LEAST_S / FRAME_S)
SOLO_S, LEAST_SOLO_S, LEAST_NEW_S = 1.5, 0.25, 0.6
"""Most that is embedded of who speaks alone, the least, and the least of a stranger's voice."""
SETTLE_S = 2.0
"""Time in which windows vote on a frame."""
EDGE_S = 0.5
"""Distance from its edges below which a window's votes count less."""
STAYS = 0.3
"""Weight of the votes of earlier windows for a voice."""
LEAST_SHARE = 0.2
"""Least share of a voice in these frames if nothing was embedded."""
STRANGERS_S = 2.0
"""Longest time between two strangers that become a voice."""
REGROUP_S, REGROUPED, SAME = 20.0, 400, 0.5
"""Interval and pieces with which voices are learnt anew, and the cosine of two that are one."""


class EmbeddedPiece(NamedTuple):
    """An embedded piece, and the voice that it was taken for; -1 for none."""

    frame: float
    """Middle of the piece."""
    seconds: float
    voice: int
    embedding: Array
    """float16, as a stream of hours has thousands."""


class Run(NamedTuple):
    voice: int
    first: int
    behind: int


def _columns(pieces: Sequence[EmbeddedPiece]) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return embeddings, `[pieces, size]`, seconds and voices of pieces."""
    embeddings, seconds, voices = (
        np.array([getattr(piece, name) for piece in pieces])
        for name in ("embedding", "seconds", "voice")
    )
    return embeddings.astype(np.float32), seconds.astype(np.float32), voices


def turn_of(run: Run) -> VoiceTurn:
    return VoiceTurn(run.voice, second_at(run.first), second_at(run.behind))


def kept_numbers(before: IntArray, now: IntArray, seconds: Array) -> IntArray:
    """Return the number of each voice in `now`: that of most of its time `before`, or a new one."""
    shared = np.zeros((now.max() + 1, before.max() + 1))
    np.add.at(shared, (now, before), seconds)
    numbers = np.full(len(shared), -1)
    for voice, number in one_to_one(np.where(shared > 0, shared, -np.inf)).items():
        numbers[voice] = number
    is_new = numbers < 0
    numbers[is_new] = shared.shape[1] + np.arange(is_new.sum())
    return numbers


def is_long(run: Run) -> bool:
    return run.behind - run.first >= LEAST


@dataclass(frozen=True, slots=True)
class Cosines:
    """Least cosines to know a voice, to learn from a piece, and to join two strangers."""

    known: float
    learnt: float
    alike: float


WIDE_BAND, LINE = Cosines(0.30, 0.55, 0.50), Cosines(0.40, 0.60, 0.58)


class Solo(NamedTuple):
    """The latest frames of a window in which one speaker is alone."""

    speaker: int
    """Number in the window."""
    frames: IntArray

    @property
    def seconds(self) -> float:
        return len(self.frames) * FRAME_S

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield its stretches of audio: first sample of the stream, and the one behind it."""
        middle = (FRAME_FIELD - FRAME_SAMPLES) // 2
        for run in np.split(self.frames, np.flatnonzero(np.diff(self.frames) > 1) + 1):
            yield int(run[0]) * FRAME_SAMPLES + middle, int(run[-1] + 1) * FRAME_SAMPLES + middle


def solos(first: int, active: Array, since: int) -> list[Solo]:
    """Return what to embed of a window: who speaks alone in it, also since a frame.

    `first` is the window's first frame, `active` bool `[frames, 3]` by its own speakers. No window
    has covered frames from `since` on before.
    """
    alone = active & (active.sum(axis=1) == 1)[:, None]
    candidates = [Solo(number, first + np.flatnonzero(own)) for number, own in enumerate(alone.T)]
    most = round(SOLO_S / FRAME_S)
    return [
        Solo(solo.speaker, solo.frames[-most:])
        for solo in candidates
        if solo.seconds >= LEAST_SOLO_S and solo.frames[-1] >= since
    ]


class LiveVoices:
    """The voices of one stream, and who speaks in its latest frames; older ones are settled."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sums: list[FloatArray] = []
        """Sum of each voice's embeddings, weighted by their seconds."""
        self._strangers: list[tuple[Solo, FloatArray]] = []
        """Latest solos of strangers, and their embeddings."""
        self._first = 0
        """First frame whose votes are kept."""
        self._votes = np.zeros((0, 0), np.float32)
        """Votes of windows for voices, `[frames, voices]`."""
        self._counts = np.zeros((0, 2), np.float32)
        """Number of speakers, weighted, and the sum of weights, `[frames, 2]`."""
        self.settled = 0
        """First frame on which windows may still vote."""
        self._open: dict[int, Run] = {}
        """Runs that may go on, by their voices."""
        self.runs: list[Run] = []
        """Settled runs, in the order of their ends."""
        self.pieces: list[EmbeddedPiece] = []
        """Pieces, evenly chosen, as many as are clustered."""
        self._stride = self._num_pieces = 0

    @property
    def sounds(self) -> FloatArray:
        """Embeddings of the voices, `[voices, size]`; zeros for one that was merged."""
        return unit(np.array(self._sums))

    def after_window(
        self,
        first: int,
        active: Array,
        embedded: Sequence[tuple[Solo, FloatArray]],
        *,
        is_line: bool = False,
    ) -> None:
        """Take what is in a window that begins at frame `first`; `active` is as of `solos`.

        `embedded` has the solos of the window, each with its embedding, of unit length.
        """
        cosines = LINE if is_line else WIDE_BAND
        for solo, embedding in embedded:
            self._meet(solo, embedding, cosines)
        self._reach(first + len(active))
        rows = slice(first - self._first, first - self._first + len(active))
        if rows.start < 0:
            active, rows = active[-rows.start :], slice(0, rows.stop)
        given = self._given(active, self._votes[rows], embedded, cosines)
        weights = votes(first, len(active), EDGE_S)
        count = active.sum(axis=1)
        self._counts[rows] += np.stack([count * weights, weights], axis=1)
        for speaker, voice in given.items():
            own = active[:, speaker]
            self._votes[rows][own, voice] += weights[own]
        for solo, embedding in embedded:
            voice = given.get(solo.speaker, -1)
            if voice >= 0 and embedding @ unit(self._sums[voice]) >= cosines.learnt:
                self._sums[voice] = self._sums[voice] + embedding * solo.seconds
            self._keep(EmbeddedPiece(float(solo.frames.mean()), solo.seconds, voice, embedding))

    def regroup(self, *, is_line: bool = False) -> None:
        """Cluster the voices anew, in up to 50 ms: one that was taken for two becomes one."""
        owned = [piece for piece in self.pieces if piece.voice >= 0 and piece.seconds >= SURE_S]
        if not owned:
            return
        chosen = np.unique(np.linspace(0, len(owned) - 1, REGROUPED).astype(int))
        embeddings, seconds, before = _columns([owned[index] for index in chosen])
        is_sure = seconds >= SURE_S
        centroids = sure_voices(
            embeddings, seconds, is_sure, is_line=is_line, least_share=1.0, most=self._most
        )
        now = (embeddings @ centroids.T).argmax(axis=1)
        numbers = kept_numbers(before, now, seconds)
        for voice in set(before.tolist()) - set(numbers.tolist()):
            if (centroids @ unit(self._sums[voice])).max() >= SAME:
                self._sums[voice] = np.zeros_like(self._sums[voice])
        for cluster, number in enumerate(numbers.tolist()):
            own = now == cluster
            if number < len(self._sums):
                self._sums[number] = seconds[own] @ embeddings[own]

    def settle(self, until: int) -> None:
        """Settle the frames before one by the latest votes."""
        self._reach(until)
        ended = self._runs_of(self.settled, until, self._open)
        self.settled = max(self.settled, until)
        for run in [*self._open.values()]:
            if run.behind + CLOSED <= until:
                ended.append(self._open.pop(run.voice))
        self.runs += sorted(filter(is_long, ended), key=lambda run: run.behind)
        # Windows to come still ask who spoke in theirs.
        drop = max(0, min(until, self._end) - round(WINDOW_S / FRAME_S) - self._first)
        self._votes, self._counts = self._votes[drop:].copy(), self._counts[drop:].copy()
        self._first += drop

    def since(self, frame: int) -> list[Run]:
        """Return the runs that end after a frame, in order; the latest ones may change."""
        latest = []
        for run in reversed(self.runs):
            if run.behind < frame - CLOSED:
                break
            latest.append(run)
        still = dict(self._open)
        ended = self._runs_of(self.settled, self._end, still)
        latest += filter(is_long, (*ended, *still.values()))
        return sorted((run for run in latest if run.behind > frame), key=lambda run: run.first)

    @property
    def _end(self) -> int:
        return self._first + len(self._votes)

    def _reach(self, end: int) -> None:
        """Have room for the frames before one and for all voices."""
        if not len(self._votes):
            self._first = max(self._first, end - 2 * round(WINDOW_S / FRAME_S))
        rows, columns = max(0, end - self._end), len(self._sums) - self._votes.shape[1]
        if rows or columns:
            self._votes = np.pad(self._votes, ((0, rows), (0, columns)))
            self._counts = np.pad(self._counts, ((0, rows), (0, 0)))

    def _meet(self, solo: Solo, embedding: FloatArray, cosines: Cosines) -> None:
        """Note a stranger, who becomes a voice if another sounds alike."""
        known = [float(embedding @ unit(total)) for total in self._sums]
        is_full = len(known) >= self._most
        if max(known, default=-1.0) >= cosines.known or solo.seconds < LEAST_NEW_S or is_full:
            return
        least = solo.frames[-1] - round(STRANGERS_S / FRAME_S)
        self._strangers = [item for item in self._strangers if item[0].frames[-1] >= least]
        for other, sound in self._strangers:
            if embedding @ sound >= cosines.alike:
                self._sums.append(sound * other.seconds + embedding * solo.seconds)
                self._strangers = []
                self._reach(self._end)
                self._votes[other.frames[other.frames >= self._first] - self._first, -1] += 1
                return
        self._strangers.append((solo, embedding))

    def _given(
        self,
        active: Array,
        votes: FloatArray,
        embedded: Sequence[tuple[Solo, FloatArray]],
        cosines: Cosines,
    ) -> Mapping[int, int]:
        """Return the voice of each speaker of a window that has one; each has another."""
        if not self._sums:
            return {}
        known = cosines.known if len(self._sums) < self._most else 0.0
        centroids = unit(np.stack(self._sums))
        sounds = {solo.speaker: centroids @ embedding for solo, embedding in embedded}
        latest = np.where(votes.max(axis=1) > 0, votes.argmax(axis=1), -1)
        scores = np.full((active.shape[1], len(centroids)), -np.inf)
        for speaker, own in enumerate(active.T):
            shares = (latest[own][:, None] == np.arange(len(centroids))).sum(axis=0)
            shares = shares / max(1, own.sum())
            sound = sounds.get(speaker)
            likely = shares if sound is None else sound + STAYS * shares
            least = LEAST_SHARE if sound is None else known
            scores[speaker] = np.where(likely >= least, likely, -np.inf)
        return one_to_one(scores)

    def _keep(self, piece: EmbeddedPiece) -> None:
        self._num_pieces += 1
        if self._num_pieces & ((1 << self._stride) - 1):
            return
        self.pieces.append(piece._replace(embedding=piece.embedding.astype(np.float16)))
        if len(self.pieces) > MOST_PIECES:
            self._stride, self.pieces = self._stride + 1, self.pieces[1::2]

    def _runs_of(self, first: int, behind: int, still: dict[int, Run]) -> list[Run]:
        """Add frames to the runs that go on; return those that end in them."""
        rows = slice(max(0, first - self._first), max(0, behind - self._first))
        votes, counts = self._votes[rows], self._counts[rows]
        wanted = np.floor(counts[:, 0] / np.maximum(counts[:, 1], 1e-6) + 0.5)
        ranks = np.argsort(np.argsort(-votes, axis=1, kind="stable"), axis=1)
        speaks = (ranks < wanted[:, None]) & (votes > 0)
        first = max(first, self._first)
        ended = []
        for voice in np.flatnonzero(speaks.any(axis=0)).tolist():
            for run in runs_of(speaks[:, voice]):
                start, end = (first + edge for edge in run)
                before = still.get(voice)
                if before and start - before.behind < CLOSED:
                    start = before.first
                elif before:
                    ended.append(before)
                still[voice] = Run(voice, start, end)
        return ended


def relabelled(
    runs: Sequence[Run],
    pieces: Sequence[EmbeddedPiece],
    *,
    is_line: bool,
    fewest: int = 1,
    most: int | None = None,
) -> tuple[list[tuple[int, Run]], FloatArray]:
    """Return the settled runs of a stream with the voices that clustering finds in its pieces.

    They come in parts, each with the index of its run. A voice that agrees with one of the stream
    has its number. The embeddings of the voices, `[voices, size]`, are zeros for numbers without.
    """
    owned = [piece for piece in pieces if piece.voice >= 0]
    if not owned:
        return [*enumerate(runs)], np.zeros((0, 0), np.float32)
    embeddings, seconds, before = _columns(owned)
    is_sure, middles = seconds >= SURE_S, np.array([piece.frame for piece in owned])
    centroids = sure_voices(embeddings, seconds, is_sure, is_line=is_line, fewest=fewest, most=most)
    now = (embeddings @ centroids.T).argmax(axis=1)
    numbers = kept_numbers(before, now, seconds)
    now = numbers[now]
    sounds = np.zeros((numbers.max() + 1, centroids.shape[1]), np.float32)
    sounds[numbers] = centroids[: len(numbers)]
    parts: list[tuple[int, Run]] = []
    for index, run in enumerate(runs):
        (own,) = np.nonzero(before == run.voice)
        # Between two pieces, the nearer one counts.
        between = (middles[own][1:] + middles[own][:-1]) / 2
        edges = np.searchsorted(between, (run.first, run.behind))
        cuts = [run.first, *between[slice(*edges)].astype(int).tolist(), run.behind]
        voice_of = now[own[edges[0] : edges[0] + len(cuts) - 1]].tolist()
        parts += [
            (index, Run(voice, start, end))
            for voice, (start, end) in zip(voice_of, pairwise(cuts), strict=True)
        ]
    return parts, sounds
