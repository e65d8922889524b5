"""The streaming and two-pass roads on plain functions: order, endpoints, ends, limits."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from plain_components import PlainComponents

from conch.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
)
from conch.metrics import AUDIO_SECONDS, CALLS, CHUNKS, ENDPOINTS, STREAMS_ENDED
from conch.orchestrator import OrchestratorConfig, Recognizer, SpeechRequest

STEP = 10_240
"""Samples of 640 ms."""


def audio(text: str) -> np.ndarray:
    """A step for each letter: a digit is speech of that level, `.` is silence."""
    levels = [0.0 if item == "." else int(item) / 10 for item in text]
    return np.repeat(np.array(levels, np.float32), STEP)


class Client:
    """Sends chunks of one stream."""

    def __init__(self, recognizer, components, stream_id=1, **parameters) -> None:
        self.recognizer, self.components = recognizer, components
        self.stream_id, self.parameters = stream_id, parameters
        self.is_new = True

    async def send(self, waveform: np.ndarray, *, ends=False, **changes):
        request = SpeechRequest(
            wav=waveform[np.newaxis],
            parameters=self.parameters,
            stream_id=self.stream_id,
            starts=self.is_new,
            ends=ends,
        )
        self.is_new = False
        (transcript,) = await self.recognizer.recognize(
            replace(request, **changes), self.components
        )
        return transcript


def run(road, **limits):
    """Run `road(recognizer, components)` and return both what it gives and the components."""
    components = PlainComponents()

    async def main():
        recognizer = Recognizer(OrchestratorConfig(**limits), components)
        found = await asyncio.wait_for(road(recognizer, components), 20)
        for _ in range(200):
            if not len(recognizer.open_streams) and not any(components.open.values()):
                break
            await asyncio.sleep(0.01)
        return found

    return asyncio.run(main()), components


def test_every_chunk_is_answered_with_the_text_so_far():
    async def road(recognizer, components):
        client = Client(recognizer, components)
        answers = [await client.send(audio(item)) for item in "12"]
        return [*answers, await client.send(audio("3"), ends=True)]

    answers, components = run(road)
    assert [item.text for item in answers] == ["0.10", "0.10 0.20", "0.10 0.20 0.30"]
    assert [item.stable for item in answers] == ["", "0.10", "0.10 0.20 0.30"]
    assert [item.is_final for item in answers] == [False, False, True]
    (segment,) = answers[-1].segments
    assert (segment.start, segment.end, segment.endpoint) == (0, 1.92, "end")
    assert sorted(components.calls) == sorted(
        ["vad", "ctc_streaming_encoder", "ctc_streaming_decoder"] * 3
    )
    assert not any(components.open.values())


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
def test_without_vad_the_encoder_tells_where_somebody_speaks(mode):
    async def road(recognizer, components):
        client = Client(recognizer, components, mode=mode, vad=False)
        for item in ".1..2":
            await client.send(audio(item))
        return await client.send(audio("."), ends=True)

    final, components = run(road)
    assert [segment.endpoint for segment in final.segments] == ["silence", "end"]
    assert [(item.start, item.end) for item in final.segments] == [(0.34, 1.58), (2.56, 3.5)]
    assert "vad" not in components.calls
    assert components.calls.count("ctc_streaming_encoder") == 6


@pytest.mark.parametrize("samples", [1_000, 10_240, 25_000, 10**6])
def test_how_the_client_cuts_its_chunks_changes_nothing(samples):
    wave = audio("12..3....45.")[:-3_000]

    async def road(recognizer, components):
        client = Client(recognizer, components, word_timestamps=True)
        for start in range(0, len(wave), samples):
            ends = start + samples >= len(wave)
            answer = await client.send(wave[start : start + samples], ends=ends)
        return answer

    found, components = run(road)
    assert found.text == "0.10 0.20 0.30 0.40 0.50"
    assert [segment.text for segment in found.segments] == ["0.10 0.20", "0.30", "0.40 0.50"]
    assert [segment.endpoint for segment in found.segments] == ["silence", "silence", "end"]
    assert [segment.index for segment in found.segments] == [0, 1, 2]
    # The step before the last utterance is heard with it, so that its words count from there.
    assert [word.start for word in found.words] == [0, 1, 2.56, 5.12, 6.12]
    assert components.calls.count("vad") == 12
    for model in ("ctc_streaming_encoder", "ctc_streaming_decoder"):
        # Of the pause the third step is not encoded, and the last one is in one call with 4; what
        # frees the stream behind its end is a call, too.
        assert components.calls.count(model) == 10


def test_chunks_calls_endpoints_and_ends_are_counted():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        for item in "1..2":
            await client.send(audio(item))
        await client.send(audio("."), ends=True)
        client.is_new = False
        with pytest.raises(SessionError):
            await client.send(audio("1"))
        return recognizer.metrics.drain()

    counted, _ = run(road)
    assert counted[CHUNKS, ("two_pass", "ok")] == 5
    assert counted[CHUNKS, ("none", "invalid")] == 1
    assert counted[CALLS, ("two_pass", "ctc_streaming_encoder")] == 5
    assert counted[CALLS, ("two_pass", "attention_decoder")] == 2
    assert counted[AUDIO_SECONDS, ("two_pass",)] == pytest.approx(5 * 0.64)
    assert counted[ENDPOINTS, ("silence",)] == 1
    assert counted[STREAMS_ENDED, ("end",)] == 1


def test_until_somebody_speaks_the_vad_alone_is_called():
    heard = []

    async def road(recognizer, components):
        encode = components.ctc_streaming_encoder

        def watched(inputs, *others):
            heard.append(len(inputs["waveform"]) / STEP)
            return encode(inputs, *others)

        components.ctc_streaming_encoder = watched
        client = Client(recognizer, components)
        for item in "...1..2..":
            answer = await client.send(audio(item))
        return [answer, await client.send(audio("."), ends=True)]

    (answer, final), components = run(road)
    # The step before speech with it, none twice, and the stream's end.
    assert heard == [2, 1, 1, 1, 1, 1, 0]
    assert answer.text == final.text == "0.10 0.20"
    assert final.road == ("vad",)
    assert components.calls.count("vad") == 10
    assert ended_once(components)
    assert len(components.ended) == 2


def test_silence_from_start_to_end_opens_nothing():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        await client.send(audio("." * 9))
        return await client.send(audio("."), ends=True), recognizer.metrics.drain()

    (final, counted), components = run(road)
    assert (final.text, final.segments, final.duration) == ("", (), 6.4)
    assert set(components.calls) == {"vad"}
    assert counted[ENDPOINTS, ("no_speech",)] == 1
    assert components.open == {}


@pytest.mark.parametrize("silent", [8, 9])
def test_speech_after_a_silence_that_is_a_rules_has_the_streams_times(silent):
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass", decoder="ctc")
        heard = []
        encode = components.ctc_encoder

        def watched(inputs, parameters):
            heard.append(len(inputs["waveform"]))
            return encode(inputs, parameters)

        components.ctc_encoder = watched
        return await client.send(audio("." * silent + "1"), ends=True), heard

    (final, heard), _ = run(road)
    (segment,) = final.segments
    start = 0.64 * silent - 0.3  # vad_pad_ms, also where the rule no_speech ends an utterance there
    assert (segment.start, segment.end) == pytest.approx((start, 0.64 * (silent + 1)))
    assert heard == [round((segment.end - segment.start) * 16_000)]


def test_an_end_in_silence_frees_what_components_keep_though_the_client_is_gone():
    class Gone(PlainComponents):
        async def call(self, model, *args):
            if model != "vad":
                raise RequestCancelledError("the client cancelled")
            return await super().call(model, *args)

    async def road(recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1.."))
        client.components = Gone()
        return await client.send(audio("."), ends=True)

    final, components = run(road)
    assert final.text == "0.10"
    assert ended_once(components)
    assert len(components.ended) == 2


@pytest.mark.parametrize("ends", [False, True])
def test_speech_that_goes_on_behind_an_end_by_length_is_heard_once(ends):
    heard = []

    async def road(recognizer, components):
        encode = components.ctc_streaming_encoder

        def watched(inputs, *others):
            heard.extend(inputs["waveform"][::STEP].tolist())
            return encode(inputs, *others)

        components.ctc_streaming_encoder = watched
        client = Client(recognizer, components, max_utterance_s=2.0)
        first = await client.send(audio(".12345"))
        return first, await client.send(audio("6"), ends=ends)

    (first, answer), _ = run(road)
    assert heard == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert answer.text == "0.10 0.20 0.30 0.40 0.50 0.60"
    assert first.segments[0].endpoint == "length"


def test_an_utterance_is_told_as_final_once_and_the_stream_goes_on():
    async def road(recognizer, components):
        client = Client(recognizer, components)
        answers = [await client.send(audio(item)) for item in "1..2"]
        return [*answers, await client.send(audio("."), ends=True)]

    answers, _ = run(road)
    assert [len(item.segments) for item in answers] == [0, 0, 1, 0, 2]
    assert [item.stable for item in answers] == ["", "", "0.10", "0.10", "0.10 0.20"]


def test_two_passes():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        held = asyncio.Event()

        async def hold(model):
            if model == "attention_decoder":
                await held.wait()

        components.before = hold
        answers = [await client.send(audio(item)) for item in "1..2"]
        held.set()
        while not (later := await client.send(audio("2"))).segments:
            await asyncio.sleep(0)
        return [*answers, later, await client.send(audio("."), ends=True)]

    answers, components = run(road)
    assert [item.text for item in answers[:4]] == ["0.10", "0.10", "0.10", "0.10 0.20"]
    assert answers[2].stable == answers[3].stable == ""  # the second pass may change it
    assert answers[2].segments[0].passes == 1
    assert answers[4].segments[0].passes == 2
    assert answers[4].text.startswith("spoken 0.10 0 0.20")
    assert answers[5].text == "spoken 0.10 0 spoken 0.20 0"
    assert [segment.passes for segment in answers[5].segments] == [2, 2]
    assert components.calls.count("attention_encoder") == 2


def test_a_second_pass_that_ends_while_another_waits_for_its_place_is_told():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        held = asyncio.Event()

        async def hold(model):
            if model == "attention_encoder":
                await held.wait()
            if components.calls.count("ctc_streaming_decoder") == 6:
                held.set()

        components.before = hold
        await client.send(audio("1.."))
        return await client.send(audio("2.."))

    answer, _ = run(road, max_second_passes=1)
    assert [(item.index, item.passes) for item in answer.segments] == [(0, 2), (1, 1)]


def test_a_second_pass_that_fails_leaves_the_first_ones_text():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        components.failing = "attention_encoder"
        return await client.send(audio("1.."), ends=True)

    answer, _ = run(road)
    assert answer.text == "0.10"
    (segment,) = answer.segments
    assert segment.error == "no second pass: attention_encoder: out of order"


def test_partials_may_be_left_out():
    async def road(recognizer, components):
        client = Client(recognizer, components, partials=False)
        answers = [await client.send(audio(item)) for item in "1..2"]
        return [*answers, await client.send(audio("."), ends=True)]

    answers, _ = run(road)
    assert [item.text for item in answers] == ["", "", "0.10", "0.10", "0.10 0.20"]


def test_chunks_sent_without_waiting_are_heard_in_order():
    async def road(recognizer, components):
        async def dawdle(model):
            await asyncio.sleep(0.002 * (components.in_flight % 3))

        components.before = dawdle
        client = Client(recognizer, components)
        sent = [client.send(audio(item), ends=item == "9") for item in "123456789"]
        return await asyncio.gather(*sent)

    answers, _ = run(road)
    assert answers[-1].text == " ".join(f"0.{digit}0" for digit in range(1, 10))
    assert [len(item.text.split()) for item in answers] == list(range(1, 10))


def ended_once(components) -> bool:
    """Every stream that a component was told of has ended, none of them twice."""
    return not any(components.open.values()) and len(set(components.ended)) == len(components.ended)


@pytest.mark.parametrize("failing", ["vad", "ctc_streaming_encoder", "ctc_streaming_decoder"])
def test_an_error_ends_the_stream_and_frees_what_components_keep(failing):
    failed = []

    async def road(recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1"))

        async def fail_once(model):
            if model == failing and model not in failed:
                failed.append(model)
                raise ComponentError(f"{model}: out of order")

        components.before = fail_once
        with pytest.raises(ComponentError, match="out of order"):
            await client.send(audio("2"))
        with pytest.raises(SessionError, match="session 1 is expired or unknown; send START"):
            await client.send(audio("3"))
        return len(recognizer.open_streams)

    found, components = run(road)
    assert found == 0
    assert ended_once(components)
    assert len(components.ended) == 2


def test_a_stream_without_chunks_expires():
    async def road(recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1"))
        while len(recognizer.open_streams):
            await asyncio.sleep(0.01)
        with pytest.raises(SessionError):
            await client.send(audio("2"))

    _, components = run(road, stream_ttl_s=0.2)
    assert ended_once(components)
    assert len(components.ended) == 2


def test_a_second_start_begins_anew_and_the_first_ones_session_is_over():
    async def road(recognizer, components):
        first = Client(recognizer, components, session="mine")
        await first.send(audio("1"))
        second = Client(recognizer, components, session="yours")
        answer = await second.send(audio("2"))
        with pytest.raises(SessionError):
            await first.send(audio("3"))
        return answer, await second.send(audio("4"), ends=True)

    (answer, last), components = run(road)
    assert (answer.text, last.text) == ("0.20", "0.20 0.40")
    assert ended_once(components)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"wav": np.full((1, 100), np.nan, np.float32)}, AudioError, "NaN"),
        ({"wav": np.zeros((2, 100), np.float32)}, AudioError, "one row; sent: 2"),
        ({"wav": None, "audio": np.array([[b"x"]], object)}, AudioError, "as WAV"),
        ({"wav": np.zeros((1, 40_000), np.float32)}, AudioError, "at most 2 s"),
        ({"sample_rate": np.array([[8000]], np.int32)}, AudioError, "with START only: it is 16000"),
        ({"parameters": {"beam_size": 3}}, OptionError, "'beam_size' can be chosen with START"),
    ],
)
def test_a_bad_chunk_fails_alone_and_the_stream_goes_on(changes, error, message):
    async def road(recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1"))
        with pytest.raises(error, match=message):
            await client.send(audio("2"), **changes)
        return await client.send(audio("3"), ends=True)

    answer, components = run(road, max_chunk_s=2)
    assert answer.text == "0.10 0.30"
    assert ended_once(components)


def test_limits():
    async def road(recognizer, components):
        one, two, three = (Client(recognizer, components, stream_id=item) for item in (1, 2, "x"))
        await one.send(audio("1"))
        await two.send(audio("1"))
        with pytest.raises(OverloadedError, match="max_streams"):
            await three.send(audio("1"))
        await one.send(audio("2"))
        with pytest.raises(AudioError, match="max_stream_s"):
            await one.send(audio("3"))
        for client in (one, two):
            await client.send(audio(""), ends=True)

    _, components = run(road, max_streams=2, max_stream_s=1.5)
    assert ended_once(components)


def test_an_empty_stream_and_one_of_a_single_short_chunk():
    async def road(recognizer, components):
        empty = await Client(recognizer, components).send(audio(""), ends=True)
        return empty, await Client(recognizer, components).send(audio("4")[:1000], ends=True)

    (empty, short), components = run(road)
    assert (empty.text, short.text) == ("", "0.40")
    assert empty.is_final
    assert ended_once(components)


def test_text_that_a_second_pass_may_replace_is_not_stable():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        answers = [await client.send(audio(item)) for item in "12..34.."]
        return [*answers, await client.send(audio("."), ends=True)]

    answers, _ = run(road)
    final = answers[-1].text
    stable = [item.stable for item in answers]
    assert stable[0] == stable[1] == ""
    assert all(final.startswith(item) for item in stable)
    assert stable[-1] == final


def test_a_deadline_is_kept_though_a_component_is_stuck_and_the_stream_is_freed_behind_it():
    async def road(recognizer, components):
        stuck = asyncio.Event()
        client = Client(recognizer, components, deadline_ms=100)
        await client.send(audio("1"))
        call = components.call

        async def shielded(model, *args):
            return await asyncio.shield(call(model, *args))  # as a thread, that nobody can cancel

        async def hold(model):
            if model == "ctc_streaming_encoder":
                await stuck.wait()

        components.call, components.before = shielded, hold
        with pytest.raises(DeadlineError):
            await asyncio.wait_for(client.send(audio("2")), 5)
        assert len(recognizer.open_streams) == 0
        stuck.set()

    _, components = run(road)
    assert not any(components.open.values())


def test_an_option_that_only_a_component_can_judge_ends_the_stream():
    async def road(recognizer, components):
        async def refuse(model):
            if model == "ctc_streaming_decoder":
                raise OptionError("option 'language' takes auto or en")

        client = Client(recognizer, components, language="de")
        await client.send(audio("1")[:100])
        components.before = refuse
        with pytest.raises(OptionError):
            await client.send(audio("1"))
        components.before = lambda model: asyncio.sleep(0)
        with pytest.raises(SessionError):
            await client.send(audio("2"))

    _, components = run(road)
    assert not any(components.open.values())


@pytest.mark.parametrize("kept_back", [audio("2")[:10], audio(".")], ids=["small", "silent"])
def test_chunks_that_nobody_encodes_keep_the_components_awake(kept_back):
    async def road(recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1.."))
        calls = components.calls.count("ctc_streaming_decoder")
        while components.calls.count("ctc_streaming_decoder") == calls:
            await client.send(kept_back)
            await asyncio.sleep(0.005)
        return await client.send(audio("2"), ends=True)

    answer, components = run(road, stream_ttl_s=0.2)
    assert set(answer.text.split()) == {"0.10", "0.20"}
    assert ended_once(components)


def test_too_many_chunks_without_waiting_end_the_stream():
    async def road(recognizer, components):
        client = Client(recognizer, components)
        sent = [client.send(audio("1")) for _ in range(8)]
        return await asyncio.gather(*sent, return_exceptions=True)

    answers, components = run(road, max_waiting_chunks=5)
    kinds = {type(item).__name__ for item in answers}
    assert "OverloadedError" in kinds
    assert not any(components.open.values())


def test_no_more_second_passes_are_under_way_than_the_limit():
    async def road(recognizer, components):
        client = Client(recognizer, components, mode="two_pass")
        return await client.send(audio("1.." * 12), ends=True)

    answer, components = run(road, max_second_passes=2)
    assert [segment.passes for segment in answer.segments] == [2] * 12
    assert components.most_in_flight <= 2 + 2
