"""Times without service, and what a server holds more of than before."""

from lab.chaos.census import DECODER, Census, grown, names_in
from lab.chaos.honest import ALL_REQUESTS, REQUEST_OF_MODEL, REQUESTS, Reply
from lab.chaos.strikes import longest_gap


def asked(sent_at: float, took_s: float, outcome: str = "right") -> Reply:
    return Reply("recording", sent_at, took_s, outcome)


def test_a_time_without_service_lies_between_two_right_answers():
    found = [asked(10, 0.2), asked(10.5, 0.2), asked(11, 0.1, "lost"), asked(11.5, 3.0)]
    assert longest_gap(found, 10) == 14.5 - 10.7
    assert longest_gap([asked(10, 0.2)], 8) == 10.2 - 8
    assert longest_gap([asked(10, 0.2, "lost")], 8) == 0


def test_every_model_has_an_honest_request():
    assert {*REQUESTS, *REQUEST_OF_MODEL.values()} <= set(ALL_REQUESTS)


def test_decoders_that_are_kept_have_not_grown():
    before, after = (Census({"vad": 2, **kept}, {}, {}, 0) for kept in ({}, {DECODER: 5}))
    assert grown(before, after) == []


def test_what_has_grown_is_told():
    before = Census({"vad": 2}, {"vad": 10}, {"vad": 8}, segments=15)
    assert grown(before, before) == []
    few_more = Census({"vad": 2}, {"vad": 15}, {"vad": 9}, segments=14)
    assert grown(before, few_more) == []
    after = Census({"vad": 1}, {"vad": 200}, {"vad": 8}, segments=16, streams=1)
    streams, segments, processes, descriptors = grown(before, after)
    assert streams == "1 live streams are open, 0 before"
    assert segments == "16 segments of shared memory, 15 before"
    assert "{'vad': 1}" in processes
    assert descriptors == "vad has 200 descriptors, 10 before"


def test_names_of_servers_are_found_in_command_lines():
    command = ["stub", "/m/vad/1/model.py", "conch-0123456789ab-region", "--name=conch-x"]
    assert names_in(command) == {"conch-0123456789ab"}
