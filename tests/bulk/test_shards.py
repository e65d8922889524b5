"""Rows hold what a transcript tells, whole or joined of pieces, and nothing that it does not."""

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import pytest
from bulk_runs import TIMES

from conch.bulk.cut import CutRecording, RequestPiece
from conch.bulk.inputs import Source
from conch.bulk.sending import Answer
from conch.bulk.shards import (
    MAX_FILES,
    SHARD,
    Row,
    digest_of,
    files_per_shard,
    not_planned,
    row_of,
    rows_of,
    shard_bytes,
    shards_of,
    without_done,
)
from conch.bulk.work import joined_answer
from conch.component import SAMPLE_RATE
from conch.wire.errors import AudioError
from conch.wire.parts import transcript_of
from conch.wire.result import Hypothesis, Segment, Transcript

SOURCE = Source("a.wav", "a.wav")
LATTICE = "0\t1\tgood\t2.4463,26.1675,1_1_12\n1\t2\tüber\t11.3135,2.8907,1_2\n2\t0.5,0,\n\n"
"""Two words and a final weight, in Kaldi's text form."""
TOLD = ("language", "language_probability", "translated_from", "lattice")

KINDS = [
    "jsonl",
    pytest.param(
        "parquet",
        marks=pytest.mark.skipif(not find_spec("pyarrow"), reason="pyarrow is missing: extra bulk"),
    ),
]


def segment(start: float, **told) -> Segment:
    return Segment(start, start + 1.0, (Hypothesis("good day", -1.0, -1.0),), **told)


def transcript(segments: Sequence[Segment], duration: float = 4.0) -> Transcript:
    return transcript_of(segments, 1, duration=duration, path=("vad",), stages={})


def test_a_row_has_no_voice_prints() -> None:
    known = '[{"name": "Ann", "embedding": [1]}, {"name": "Ben", "embedding": [2]}]'
    result = row([], speakers="auto", known_speakers=known)["options"]
    assert dict(result) == {"speakers": "auto", "known_speakers": "Ann,Ben"}


def row(segments: Sequence[Segment], **options) -> Row:
    return row_of(SOURCE, Answer(transcript(segments), None, 0.5), options)


def read_back(kind: str, *rows: Row) -> list[Row]:
    return rows_of(f"x.{kind}", shard_bytes(kind, rows))


@pytest.mark.parametrize(
    ("found", "asked", "told"), [("de", "auto", "de"), ("", "auto", None), ("", "en", "en")]
)
def test_a_row_has_the_language_that_was_found_or_asked_for(found, asked, told):
    assert row([segment(0.0, language=found)], language=asked)["language"] == told


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_languages_and_what_was_translated(kind):
    (result,) = read_back(
        kind,
        row(
            [
                segment(0.0, language="en", language_probability=0.9, translated_from="de"),
                segment(1.0, language="en", language_probability=0.6, translated_from="fr"),
                segment(2.0, language="en", language_probability=0.7, translated_from="de"),
            ],
            task="translate",
        ),
    )
    assert [result[name] for name in TOLD[:3]] == ["en", 0.8, "de"]
    assert [[item[name] for name in TOLD[:3]] for item in result["segments"]] == [
        ["en", 0.9, "de"],
        ["en", 0.6, "fr"],
        ["en", 0.7, "de"],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_lattices_of_its_segments(kind):
    segments = [segment(0.0, lattice=LATTICE), segment(1.0)]
    (result,) = read_back(kind, row(segments, lattice=True, decoder="wfst"))
    assert [item.get("lattice") for item in result["segments"]] == [LATTICE, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_value_is_read_back_as_none(kind):
    failed = row_of(SOURCE, Answer(None, AudioError("bad"), 0.5), {})
    plain, error = read_back(kind, row([segment(0.0)]), failed)
    for result in (plain, error, *plain["segments"]):
        assert [result.get(name) for name in TOLD] == [None] * len(TOLD)


def test_a_segment_has_no_keys_for_missing_values():
    (result,) = row([segment(0.0)])["segments"]
    assert result.keys() == {"start", "end", "channel", "text", "unrecognised"}
    (result,) = row([segment(0.0, language="en", language_probability=0.0)])["segments"]
    assert result.keys() > {"language", "language_probability"}


def test_a_row_joined_of_pieces_is_that_of_the_whole():
    told = {"language": "en", "translated_from": "de", "lattice": LATTICE}
    starts = {0: (0.032, 1.5), 40: (0.123,)}
    cut = CutRecording(
        tuple(RequestPiece(0, start * SAMPLE_RATE, (start + 40) * SAMPLE_RATE) for start in starts),
        80.0,
        (),
        (),
    )
    parts = [
        Answer(
            transcript([segment(item, language_probability=item / 4, **told) for item in within]),
            None,
            0.25,
            {"vad": "1 packaged"},
        )
        for within in starts.values()
    ]
    # As they lie in the folder of work.
    heard = joined_answer(cut, [Answer.from_json(part.to_json()) for part in parts], 1)
    whole = transcript(
        [
            replace(item, start=round(item.start + start, 3), end=round(item.end + start, 3))
            for start, part in zip(starts, parts, strict=True)
            for item in part.transcript.segments
        ],
        duration=80.0,
    )
    options = {"lattice": True, "task": "translate"}
    joined = row_of(SOURCE, heard, options, 2)
    expected = row_of(SOURCE, Answer(whole, None, 0.5, parts[0].models), options)
    assert [item["lattice"] for item in joined["segments"]] == [LATTICE] * 3
    assert joined["language_probability"] == expected["language_probability"] is not None
    for name in TIMES:
        del joined[name], expected[name]
    assert json.dumps(joined) == json.dumps(expected)


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
