"""The two-pass path on plain functions."""

import asyncio

from clock import Clock
from plain_streams import Client, audio, ended_once, serving, streaming
from spoken_components import SpokenComponents, made

from conch.recognition.live import second_passes
from conch.recognition.metrics import PASSES


async def test_two_passes():
    async with streaming(mode="two_pass", rolling_pass_ms=0) as (client, components):
        held = components.hold("moonshine_decoder")
        answers = await client.say("1..2", ends=False)
        held.set()
        while not (later := await client.send(audio("2"))).segments:
            await asyncio.sleep(0)
        answers = [*answers, later, await client.send(audio("."), ends=True)]
    assert [item.text for item in answers[:4]] == ["0.10", "0.10", "0.10", "0.10 0.20"]
    assert answers[2].stable == answers[3].stable == ""  # the second pass may change it
    assert answers[2].segments[0].passes == 1
    assert answers[4].segments[0].passes == 2
    assert answers[4].text.startswith("spoken 0.10 0 0.20")
    assert answers[5].text == "spoken 0.10 0 spoken 0.20 0"
    assert [segment.passes for segment in answers[5].segments] == [2, 2]
    assert components.calls.count("moonshine_encoder") == 2


async def test_a_lattice_is_of_the_second_pass():
    options = {"mode": "two_pass", "decoder": "wfst", "lattice": True, "rolling_pass_ms": 0}
    async with streaming(**options) as (client, components):
        await client.send(audio("1.."))
        answer = await client.send(audio("."), ends=True)
    assert [(item.passes, item.lattice) for item in answer.segments] == [(2, "0 1,1,1")]
    asking = [
        name
        for name, sent in zip(components.calls, components.parameters, strict=True)
        if "lattice" in sent
    ]
    assert asking == ["ctc_decoder"]


async def test_a_second_pass_that_ends_while_another_waits_for_its_place_is_reported():
    settings = {"max_second_passes": 1, "mode": "two_pass", "endpoint_silence_ms": 600}
    async with streaming(**settings) as (client, components):
        held = asyncio.Event()

        async def hold(model):
            if model == "moonshine_encoder":
                await held.wait()
            if components.calls.count("ctc_streaming_decoder") == 4:
                held.set()

        components.before = hold
        await client.send(audio("1."))
        answer = await client.send(audio("2."))
    assert [(item.index, item.passes) for item in answer.segments] == [(0, 2), (1, 1)]


async def test_a_second_pass_that_fails_leaves_the_first_ones_text():
    async with streaming(mode="two_pass") as (client, components):
        components.failing = "moonshine_encoder"
        answer = await client.send(audio("1.."), ends=True)
    assert answer.text == "0.10"
    (segment,) = answer.segments
    assert segment.error == "no second pass: moonshine_encoder: out of order"


async def test_a_defect_in_a_second_pass_leaves_the_first_ones_text(caplog):
    async with streaming(mode="two_pass") as (client, components):
        components.failing, components.failure = "moonshine_encoder", ZeroDivisionError("a defect")
        answer = await client.send(audio("1..2"), ends=True)
    assert answer.text == "0.10 0.20"
    assert [segment.passes for segment in answer.segments] == [1, 1]
    for segment in answer.segments:
        assert segment.error.startswith("no second pass: internal error")
        assert segment.error.split()[-1] in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text
    assert ended_once(components)


async def test_text_that_a_second_pass_may_replace_is_not_stable():
    async with streaming(mode="two_pass") as (client, _):
        answers = await client.say("12..34...")
    final = answers[-1].text
    stable = [item.stable for item in answers]
    assert stable[0] == stable[1] == ""
    assert all(final.startswith(item) for item in stable)
    assert stable[-1] == final


async def test_no_more_second_passes_are_under_way_than_the_limit():
    async with streaming(max_second_passes=2, mode="two_pass") as (client, components):
        answer = await client.send(audio("1.." * 12), ends=True)
    assert [segment.passes for segment in answer.segments] == [2] * 12
    assert components.most_in_flight <= 2 + 2


async def two_passes(components, waveform, **options):
    async with streaming(components, mode="two_pass", rolling_pass_ms=0, **options) as (client, _):
        return await client.send(waveform, ends=True)


async def test_a_second_pass_that_leaves_out_what_the_first_one_heard_is_not_believed():
    components = SpokenComponents(lambda words, seconds: words[:1])
    answer = await two_passes(components, audio("123456.."))
    (segment,) = answer.segments
    assert answer.text == "0.10 0.20 0.30 0.40 0.50 0.60"
    assert segment.error == "no second pass: it left out what the first one heard"
    assert (segment.passes, segment.unrecognised) == (1, ())


async def test_words_that_the_first_pass_wrote_for_another_language_refute_no_second_pass():
    components = SpokenComponents(lambda words, seconds: words[:1])
    components.language_spoken = "zh"
    answer = await two_passes(components, audio("123456.."))
    (segment,) = answer.segments
    assert (segment.passes, segment.error, segment.language) == (2, "", "zh")
    assert segment.unrecognised
    components = SpokenComponents(lambda words, seconds: words[:1])
    (segment,) = (await two_passes(components, audio("123456.."), language="zh")).segments
    assert (segment.passes, segment.error) == (2, "")


async def test_a_second_pass_is_repaired_as_a_recording_is():
    def until_four(words, seconds):
        return words[:4]

    components = SpokenComponents(until_four)
    answer = await two_passes(components, made("abcd-efgh...."))
    (segment,) = answer.segments
    assert answer.text == "a b c d e f g h"
    assert (segment.passes, segment.error, segment.unrecognised) == (2, "", ())
    assert components.calls.count("ctc_encoder") == 1


class OneWord(SpokenComponents):
    """Its first pass hears one word."""

    def ctc_streaming_decoder(self, inputs, parameters, kept):
        inputs = {**inputs, "log_probs": inputs["log_probs"] * (not kept)}
        return super().ctc_streaming_decoder(inputs, parameters, kept)


async def test_a_second_pass_that_leaves_out_what_neither_heard_says_so():
    components = OneWord(lambda words, seconds: [word for word in words if word.text < "e"])
    answer = await two_passes(components, made("abcd-efgh...."))
    (segment,) = answer.segments
    assert answer.text == "a b c d"
    assert (segment.passes, segment.error) == (2, "")
    assert [left.heard for left in segment.unrecognised] == ["e f g h"]
    assert answer.unrecognised == segment.unrecognised


async def test_of_live_speech_the_second_pass_of_one_utterance_too_many_is_left_out():
    # Short, so that no second pass begins before its utterance has ended.
    options = {"mode": "two_pass", "rolling_pass_ms": 0, "endpoint_silence_ms": 600}
    async with streaming(clock=Clock(), max_second_passes=2, **options) as (client, components):
        let_go = components.hold("moonshine_encoder")
        answers = await client.say("1.2.3.", ends=False)
        while not (answers[-1].segments and answers[-1].segments[0].error):
            answers.append(await client.send(audio(".")))
        in_flight = components.in_flight
        let_go.set()
        final = await client.send(audio(""), ends=True)
        counted = client.recognizer.runtime.metrics.drain()
    assert [segment.passes for segment in final.segments] == [2, 2, 1]
    # It is told while the others are under way, and what was begun of it has ended.
    (left_out,) = answers[-1].segments
    assert left_out.error == "no second pass: 2 of this stream wait already"
    assert (left_out.text, final.text.split()[-1]) == ("0.30", "0.30")
    assert in_flight == 2
    assert counted[PASSES, ("second", "skipped")] == 1
    assert counted[PASSES, ("second", "made")] == 2


async def test_a_second_pass_in_a_pause_that_is_done_is_never_left_out():
    options = {"mode": "two_pass", "rolling_pass_ms": 0}
    async with streaming(clock=Clock(), max_second_passes=1, **options) as (client, components):
        let_go = components.hold("moonshine_encoder")
        await client.send(audio("1.."))
        components.before = lambda model: asyncio.sleep(0)
        await client.send(audio("2."))
        while components.calls.count("moonshine_decoder") < 1:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        answer = await client.send(audio("."))
        let_go.set()
        final = await client.send(audio(""), ends=True)
    (second,) = answer.segments
    assert (second.index, second.passes, second.error) == (1, 2, "")
    assert [segment.passes for segment in final.segments] == [2, 2]


async def test_a_second_pass_that_finds_no_place_in_time_is_left_out(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(second_passes, "PATIENCE_S", 0.05)
    async with serving(clock=clock, max_passes_in_flight=1) as (recognizer, components):
        let_go = components.hold("moonshine_encoder")
        other = Client(recognizer, components, 2, clock=clock, mode="two_pass", rolling_pass_ms=0)
        await other.send(audio("1.."))
        client = Client(recognizer, components, clock=clock, mode="two_pass", rolling_pass_ms=0)
        final = await client.send(audio("2.."), ends=True)
        let_go.set()
        other = await other.send(audio(""), ends=True)
    (segment,) = final.segments
    assert (segment.text, segment.passes) == ("0.20", 1)
    assert segment.error == "no second pass: the passes of other streams took all of 0.05 s"
    assert other.segments[0].passes == 2
