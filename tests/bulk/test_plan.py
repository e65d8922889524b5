"""What shares a shard, and what is left after a run that was cut short."""

import pytest

from conch.bulk.inputs import Source
from conch.bulk.shards import (
    MAX_FILES,
    SHARD,
    digest_of,
    files_per_shard,
    not_planned,
    shards_of,
    without_done,
)


def sources(*names: str) -> list[Source]:
    return [Source(name, name) for name in names]


@pytest.mark.parametrize(
    ("files", "size"), [(0, 1), (1, 1), (3, 1), (90, 9), (300, 17), (10**6, MAX_FILES)]
)
def test_a_small_run_has_shards_for_many_nodes(files: int, size: int) -> None:
    assert files_per_shard(files) == size


def test_shards_hold_each_recording_once_and_in_order() -> None:
    given = sources(*(f"{number}.wav" for number in range(1000)))
    shards = shards_of(given)
    assert [source for shard in shards for source in shard.sources] == given
    assert all(SHARD.fullmatch(f"{shard.name}.jsonl") for shard in shards)
    assert shards == shards_of(given)


def test_a_name_belongs_to_the_recordings_of_its_shard() -> None:
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    first, second = shards_of(sources("a", "b", "c"), 2)
    again, other = shards_of(sources("a", "b", "d"), 2)
    assert first.name == again.name
    assert second.name != other.name


def test_a_second_run_does_what_is_missing() -> None:
    shards = shards_of(sources("a", "b", "c"), 1)
    result = [f"{shards[1].name}.jsonl"]
    assert without_done(shards, result) == [shards[0], shards[2]]
    assert not_planned(shards, result) == []


def test_shards_of_other_recordings_are_noticed() -> None:
    result = [f"{shard.name}.parquet" for shard in shards_of(sources("a", "b"), 2)]
    assert not_planned(shards_of(sources("a", "b", "c"), 2), result) == []
    assert not_planned(shards_of(sources("0", "a", "b"), 2), result) == result
