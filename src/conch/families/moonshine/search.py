"""Beam search over Moonshine's decoder, and guards against texts that nobody said."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conch.component.arrays import FloatArray
from conch.families.moonshine.network import Advance, Hypotheses, Step
from conch.families.moonshine.tokens import END, START

TOKENS_PER_S = 6.5
"""Tokens of a second of audio beyond which a text repeats itself; speech has up to 4.2."""
MORE_TOKENS = 2
PRUNED = 4.0
"""How much less probable than the best one a hypothesis is when it is dropped, in nats.

184 utterances of dev, a beam of ten: 0.7 times the tokens, and the oracle stays (2.72, 2.75 %)."""


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
        """Iterate over the tokens of the hypothesis, the first one first."""
        found: list[Token] = []
        token: Token | None = self
        while token:
            found.append(token)
            token = token.before
        return reversed(found)

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
    draft: Sequence[int] = (),
    pruned: float = PRUNED,
) -> Generator[Step, Advance, Searched]:
    """Yield each step of the search over a segment, and return its hypotheses.

    A hypothesis is finished by the end of text among the `beam_size` best continuations. The search
    is over when that many have finished and none that is open has a better average. No hypothesis
    is empty: `Searched.wanted_nothing` says whether it should have been.

    A hypothesis that is less probable than the best one by `pruned` nats is dropped.

    The `seconds` of audio limit the number of tokens. Runs of `no_repeat` tokens may not occur
    twice; 0 is for any. With a beam of one, the text may begin with the tokens of `draft`. All of
    them are verified in one step, and the search goes on from the first that it would not have
    chosen (speculative decoding, Leviathan et al., 2023, https://arxiv.org/abs/2211.17192).
    """
    most = int(TOKENS_PER_S * seconds) + MORE_TOKENS
    draft = draft[: most - 1] if beam_size == 1 and not no_repeat else ()
    found = yield Step(hypotheses, [[START, *draft]], [0], num_best=2 * beam_size)
    is_silent = found.best_ids[0, 0, 0] == END
    wanted_nothing = float(found.best_log_probs[0, 0, 0]) if is_silent else None
    verified, found = _verified(hypotheses, found, draft)
    alive = [verified]
    ended: list[Token] = []
    for length in range(verified.length + 1 if verified else 1, most + 1):
        ranked = _continued(alive, found, no_repeat)
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
        found = yield Step(hypotheses, ids, parents, num_best=2 * beam_size)
    # Nothing has ended where a text would never end, or where all that could follow is banned.
    ended = ended or [token for token in alive or before if token]
    return Searched(sorted(ended, key=lambda token: -token.average), wanted_nothing)


def _verified(
    hypotheses: Hypotheses, found: Advance, draft: Sequence[int]
) -> tuple[Token | None, Advance]:
    """Return the tokens of a draft that a greedy search would choose, and what follows them."""
    verified: Token | None = None
    for place, item in enumerate(draft):
        here = _at(found, place)
        best = next(
            token for _, token in _continued([verified], here, 0) if verified or token.id != END
        )
        if best.id != item or item == END:
            break
        verified = best
    num_verified = verified.length if verified else 0
    if num_verified < len(draft):
        hypotheses.keep(1 + num_verified)
    return verified, _at(found, num_verified)


def _at(found: Advance, place: int) -> Advance:
    here = slice(place, place + 1)
    return Advance(
        found.best_log_probs[:, here],
        found.best_ids[:, here],
        found.target_log_probs[:, here],
        found.attention[:, here],
    )


def _continued(
    alive: Sequence[Token | None], found: Advance, no_repeat: int
) -> list[tuple[int, Token]]:
    """Return the continuations of hypotheses with their rows, the most probable first."""
    continued = []
    for row, before in enumerate(alive):
        banned = _repeating(before, no_repeat) if before and no_repeat else ()
        attention = found.attention[row, -1]
        best = found.best_log_probs[row, -1].tolist(), found.best_ids[row, -1].tolist()
        for log_prob, item in zip(*best, strict=True):
            if item not in banned:
                total = log_prob + (before.total if before else 0.0)
                length = before.length + 1 if before else 1
                token = Token(item, log_prob, total, attention, before, length)
                continued.append((row, token))
    continued.sort(key=lambda pair: -pair[1].total)
    return continued


def _repeating(last: Token, size: int) -> set[int]:
    """Return the tokens that would make a run of `size` tokens occur twice."""
    ids = [token.id for token in last]
    tail = ids[len(ids) - size + 1 :]
    runs = (ids[at : at + size] for at in range(len(ids) - size + 1))
    return {run[-1] for run in runs if run[:-1] == tail}
