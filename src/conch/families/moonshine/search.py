"""Searches over Moonshine's decoder, and guards against texts that nobody said."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import FloatArray
from conch.families.moonshine import END, START
from conch.families.moonshine.network import Advance, DecoderStep, Hypotheses

TOKENS_PER_S = 6.5
"""Tokens of a second of audio beyond which a text repeats itself; speech has up to 4.2."""
MORE_TOKENS = 2
PRUNED = 4.0
"""Nats below the best hypothesis at which one is dropped.

184 utterances of dev, a beam of ten: 0.7 times the tokens, and the oracle stays (2.72, 2.75 %)."""

TRIED, SKIPPED = 4, 3
"""Tokens of a draft that are tried again, and how far off the chosen one is looked for. A step with
four more costs 1.5 times one with a single token."""


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """A token of a hypothesis, and through `before` all that stand before it."""

    id: int
    log_prob: float
    """Natural log probability of the token, given those before."""
    total: float
    """Sum of the log probabilities of the hypothesis so far."""
    attention: FloatArray
    """float32 `[frames]`: where the decoder listened when it found the token."""
    before: "Token | None"
    length: int
    """Number of tokens, this one among them."""

    def __iter__(self) -> Iterator["Token"]:
        tokens: list[Token] = []
        token: Token | None = self
        while token:
            tokens.append(token)
            token = token.before
        return reversed(tokens)

    @property
    def average(self) -> float:
        return self.total / self.length


@dataclass(frozen=True, slots=True)
class Searched:
    ended: list[Token]
    """The ends of hypotheses, the best by the average of a token first; at least one."""
    wanted_nothing: float | None
    """Log probability of an empty text if it was the most probable one, else None."""


def beam_search(
    hypotheses: Hypotheses,
    beam_size: int,
    seconds: float,
    no_repeat: int = 0,
    pruned: float = PRUNED,
) -> Generator[DecoderStep, Advance, Searched]:
    """Yield each step of the search over a segment, and return its hypotheses.

    A hypothesis is finished by the end of text among the `beam_size` best continuations. The search
    is over when that many have finished and none that is open has a better average. No hypothesis
    is empty: `Searched.wanted_nothing` says whether it should have been.

    A hypothesis that is less probable than the best one by `pruned` nats is dropped.

    The `seconds` of audio limit the number of tokens. Runs of `no_repeat` tokens may not occur
    twice; 0 is for any.
    """
    most = int(TOKENS_PER_S * seconds) + MORE_TOKENS
    advance = yield DecoderStep(hypotheses, [[START]], [0], num_best=2 * beam_size)
    wanted_nothing = _wanted_nothing(advance)
    alive: list[Token | None] = [None]
    ended: list[Token] = []
    for length in range(1, most + 1):
        ranked = _continued(alive, advance, no_repeat)
        before, alive, parents = alive, [], []
        best = max((token.total for token in ended), default=-np.inf)
        for rank, (row, token) in enumerate(ranked):
            if token.total < best - pruned:
                break
            if token.id != END:
                alive.append(token)
                parents.append(row)
            elif length > 1 and rank < beam_size:
                ended.append(token)
            else:
                continue
            best = max(best, token.total)
            if len(alive) == beam_size:
                break
        best_open = max((token.average for token in alive if token), default=-np.inf)
        best_ended = max((token.average for token in ended), default=-np.inf)
        is_settled = len(ended) >= beam_size and best_ended >= best_open
        if is_settled or not alive or length == most:
            break
        ids = [[token.id] for token in alive if token]
        advance = yield DecoderStep(hypotheses, ids, parents, num_best=2 * beam_size)
    # Nothing has ended where a text would never end, or where all that could follow is banned.
    ended = ended or [token for token in alive or before if token]
    return Searched(sorted(ended, key=lambda token: -token.average), wanted_nothing)


def greedy_search(
    hypotheses: Hypotheses,
    seconds: float,
    draft: Sequence[int],
    said: Sequence[int] = (),
    run: int = 0,
) -> Generator[DecoderStep, Advance, Searched]:
    """Yield each step of a search with a beam of one over a segment, and return its text.

    The text begins with the tokens of `said`. Those of `draft` probably follow: they are verified
    in one step and change no text (speculative decoding, Leviathan et al., 2023,
    https://arxiv.org/abs/2211.17192). Where the search leaves the draft, it tries the next tokens
    of it again.

    Behind the draft, a text that has a run of `run` tokens three times ends before the second one;
    0 is for any.
    """
    most = max(int(TOKENS_PER_S * seconds) + MORE_TOKENS, len(said) + 1)
    given, tried = [START, *said], draft[: most - len(said) - 1]
    targets = [[*said, *tried, END]]
    advance = yield DecoderStep(hypotheses, [[*given, *tried]], [0], num_best=2, targets=targets)
    wanted_nothing = None if said else _wanted_nothing(advance)
    text: Token | None = None
    for position, item in enumerate(said):
        log_prob = float(advance.target_log_probs[0, position])
        text = _after(text, item, log_prob, advance.attention[0, position])
    at = 0
    while True:
        verified = 0
        for position, drafted in enumerate([*tried, None], len(given) - 1):
            chosen = _best(text, advance, position)
            if chosen.id == END or chosen.length == most:
                return Searched([chosen], wanted_nothing)
            if chosen.id != drafted:
                break
            text, verified = chosen, verified + 1
        text = chosen
        if run and at + verified >= len(draft) and (once := _first_of_three(text, run)):
            return Searched([_ended(text, max(once, len(said)))], wanted_nothing)
        if verified < len(tried):
            hypotheses.keep(hypotheses.length - len(tried) + verified)
        at = _next(draft, at + verified, text.id)
        given, tried = [text.id], draft[at : at + TRIED][: most - text.length - 1]
        advance = yield DecoderStep(hypotheses, [[*given, *tried]], [0], num_best=2)


def _next(draft: Sequence[int], at: int, chosen: int) -> int:
    """Return the index in a draft behind a token that was chosen where the draft has another."""
    near = range(max(0, at - SKIPPED), min(len(draft), at + SKIPPED + 1))
    same = [index for index in near if draft[index] == chosen]
    return 1 + min(same, key=lambda index: abs(index - at), default=at)


def _best(before: Token | None, advance: Advance, position: int) -> Token:
    """Return the most probable continuation, which makes no empty text."""
    continued = _continued([before], advance, 0, position)
    return next(token for _, token in continued if before or token.id != END)


def _first_of_three(text: Token, run: int) -> int:
    """Return how many tokens stand before the second run like the last one; 0 without three."""
    ids = [token.id for token in text]
    same = [at for at in range(len(ids) - run + 1) if ids[at : at + run] == ids[-run:]]
    return same[1] if len(same) > 2 else 0


def _ended(text: Token, length: int) -> Token:
    """Return the end of a text behind its first tokens, where the next one was heard."""
    *kept, dropped = [*text][: length + 1]
    return _after(kept[-1], END, 0.0, dropped.attention)


def _wanted_nothing(advance: Advance) -> float | None:
    """Return the log probability of an empty text if it is the most probable one."""
    return float(advance.best_log_probs[0, 0, 0]) if advance.best_ids[0, 0, 0] == END else None


def _continued(
    alive: Sequence[Token | None], advance: Advance, no_repeat: int, at: int = -1
) -> list[tuple[int, Token]]:
    """Return what follows a token of hypotheses, with their rows, the most probable first."""
    continued = []
    for row, before in enumerate(alive):
        banned = _repeating(before, no_repeat) if before and no_repeat else ()
        attention = advance.attention[row, at]
        best = advance.best_log_probs[row, at].tolist(), advance.best_ids[row, at].tolist()
        for log_prob, item in zip(*best, strict=True):
            if item not in banned:
                continued.append((row, _after(before, item, log_prob, attention)))
    continued.sort(key=lambda pair: -pair[1].total)
    return continued


def _after(before: Token | None, item: int, log_prob: float, attention: FloatArray) -> Token:
    total, length = (before.total, before.length) if before else (0.0, 0)
    return Token(item, log_prob, log_prob + total, attention, before, length + 1)


def _repeating(last: Token, size: int) -> set[int]:
    """Return the tokens that would make a run of `size` tokens occur twice."""
    ids = [token.id for token in last]
    tail = ids[len(ids) - size + 1 :]
    runs = (ids[at : at + size] for at in range(len(ids) - size + 1))
    return {run[-1] for run in runs if run[:-1] == tail}
