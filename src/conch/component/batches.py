"""Put items of similar length into batches."""

from collections.abc import Sequence


def buckets(lens: Sequence[int], max_padding: float, max_total: int) -> list[list[int]]:
    """Return batches of items of similar length, as lists of indexes.

    An item has at least `1 - max_padding` of the length of the longest in its batch. The longest
    times the size of the batch is at most `max_total`; a longer item is alone.

    >>> buckets([10, 5, 9, 30], max_padding=0.2, max_total=40)
    [[3], [0, 2], [1]]
    """
    found: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lens)), key=lambda item: -lens[item]):
        fits = found and lens[index] >= (1 - max_padding) * longest
        if fits and longest * (len(found[-1]) + 1) <= max_total:
            found[-1].append(index)
        else:
            found.append([index])
            longest = lens[index]
    return found
