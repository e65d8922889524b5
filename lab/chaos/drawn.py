"""Draw hostile values with hypothesis: the same ones for the same seed."""

from dataclasses import Field
from functools import cache
from typing import Any, TypeVar
from unittest import mock

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from conch.wire.option_values import type_of, words_of
from conch.wire.options import all_options

Item = TypeVar("Item")

HUGE = (2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), -1, 10**30, 10**400)
"""Numbers at which types of C end."""
TEXTS = (
    *("", "\x00", "a" * 5_000, "../../etc/passwd", "{}", "null", "%s%n", "\u202e\U0001f41a"),
    *("speech", "conch", "1e400", "'; --", "#EXTM3U", "http://127.0.0.1:1/x.wav"),
)


def drawn(strategy: st.SearchStrategy[Item], count: int, number: int) -> list[Item]:
    """Return at most `count` items of a strategy, the same for the same `number`."""
    items: list[Item] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(item: Item) -> None:
        items.append(item)

    # hypothesis takes constants from all modules of the project that happen to be loaded.
    with mock.patch.object(providers, "_get_local_constants", Constants):
        keep()
    return items[:count]


def mostly(usual: st.SearchStrategy[Item], odd: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    """Return a strategy that draws the odd value every fifth time."""
    # one_of drops repeated alternatives, and so cannot weigh them.
    return st.integers(0, 4).flatmap(lambda number: odd if number == 4 else usual)


@cache
def scalars() -> st.SearchStrategy[Any]:
    """Return values of JSON that are no containers."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-300, 300),
        st.sampled_from(HUGE),
        st.floats(),
        st.text(max_size=12),
        st.sampled_from(TEXTS),
    )


@cache
def values() -> st.SearchStrategy[Any]:
    """Return any value of JSON, nested up to a hundred deep."""
    return st.one_of(
        scalars(),
        st.recursive(
            scalars(),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        st.integers(1, 100).map(nested),
    )


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@cache
def options() -> st.SearchStrategy[dict[str, Any]]:
    """Return request options: most are known, half of their values are in range."""
    known = st.one_of([_option(item) for item in all_options().values()])
    odd = st.tuples(
        st.one_of(st.text(max_size=12), st.sampled_from([*TEXTS, "session", "priority"])), values()
    )
    return st.lists(mostly(known, odd), max_size=4).map(dict)


def _option(item: "Field[Any]") -> st.SearchStrategy[tuple[str, Any]]:
    ranges: list[st.SearchStrategy[Any]] = [values()]
    if words := words_of(item):
        ranges.append(st.sampled_from(words))
    value_type, low, high = type_of(item), item.metadata["low"], item.metadata["high"]
    if value_type is bool:
        ranges.append(st.booleans())
    elif value_type is str:
        ranges.append(st.sampled_from(["", "en", "Conch:8, Triton", "a" * 401]))
    elif value_type is not None:
        limits = (low, high, low - 1, high + 1)
        ranges.append(st.sampled_from([value_type(limit) for limit in limits]))
        ranges.append(
            st.integers(low, high) if value_type is int else st.floats(low, high, allow_nan=False)
        )
    return st.tuples(st.just(item.name), st.one_of(ranges))


def has_rows(shape: Any) -> bool:
    """Return whether Triton answers a tensor of a shape.

    Its Python backend 24.10 drops a batch of no rows and of no elements: the client waits for ever,
    and so does the end of the server. Nothing in a model can change that.
    """
    return not (isinstance(shape, list) and shape[:1] == [0] and 0 in shape[1:])


def utf8(text: str) -> str:
    """Return a text whose halves of characters are replaced."""
    return text.encode(errors="replace").decode()


@st.composite
def samples(draw: st.DrawFn) -> list[float]:
    """Return up to half a second of silence, a constant, noise, or samples out of range."""
    count = draw(st.sampled_from([0, 1, 2, 160, 1_600, 8_000]))
    sound = draw(st.sampled_from(["silence", "constant", "saw", "loud", "odd"]))
    if sound == "odd":
        return [draw(st.floats(width=32)) for _ in range(min(count, 20))]
    if sound == "saw":
        period = draw(st.integers(2, 200))
        return [round(2 * (at % period) / period - 1, 4) for at in range(count)]
    level = {"silence": 0.0, "constant": 0.5, "loud": 20_000.0}[sound]
    return [level] * count
