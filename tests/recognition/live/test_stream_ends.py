"""How streams on plain functions end, and what stays open: errors, limits, silence."""

import asyncio
import contextlib
import time

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_streams import STEP, Client, audio, ended_once, serving, streaming

from conch.recognition.metrics import STREAMS_ENDED
from conch.wire.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
)


async def test_an_end_in_silence_frees_what_components_keep_though_the_client_is_gone():
    class Gone(PlainComponents):
        async def call(self, call):
            if call.model != "vad":
                raise RequestCancelledError("the client cancelled")
            return await super().call(call)

    async with streaming() as (client, components):
        await client.send(audio("1.."))
        client.components = Gone()
        final = await client.send(audio("."), ends=True)
    assert final.text == "0.10"
    assert ended_once(components)
    assert len(components.ended) == 2


@pytest.mark.parametrize("failing", ["vad", "ctc_streaming_encoder", "ctc_streaming_decoder"])
async def test_an_error_ends_the_stream_and_frees_what_components_keep(failing):
    failed = []
    async with streaming() as (client, components):
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
        assert len(client.recognizer.open_streams) == 0
    assert ended_once(components)
    assert len(components.ended) == 2


async def test_a_stream_without_chunks_expires():
    async with streaming(stream_ttl_s=0.2) as (client, components):
        await client.send(audio("1"))
        while len(client.recognizer.open_streams):
            await asyncio.sleep(0.01)
        with pytest.raises(SessionError):
            await client.send(audio("2"))
    assert ended_once(components)
    assert len(components.ended) == 2


@pytest.mark.parametrize("session", [{}, {"session": "mine"}])
async def test_a_second_start_begins_again(session):
    async with serving() as (recognizer, components):
        first = Client(recognizer, components, **session)
        await first.send(audio("1"))
        second = Client(recognizer, components, **session)
        answer = await second.send(audio("2"))
        last = await second.send(audio("4"), ends=True)
    assert (answer.text, last.text) == ("0.20", "0.20 0.40")
    assert ended_once(components)


@pytest.mark.parametrize("others", [{}, {"session": "yours"}])
async def test_two_clients_with_one_id_and_different_sessions_do_not_meet(others):
    async with serving() as (recognizer, components):
        first = Client(recognizer, components, session="mine")
        await first.send(audio("1"))
        second = Client(recognizer, components, **others)
        answers = [await second.send(audio("2"))]
        answers.append(await first.send(audio("3"), ends=True))
        answers.append(await second.send(audio("4"), ends=True))
    assert [answer.text for answer in answers] == ["0.20", "0.10 0.30", "0.20 0.40"]
    assert ended_once(components)


@pytest.mark.parametrize(("length", "is_taken"), [(128, True), (129, False)])
async def test_a_session_is_not_longer_than_an_id(length, is_taken):
    wrong = pytest.raises(OptionError, match=r"'session' takes at most 128 characters; .* 129")
    async with streaming(session="s" * length) as (client, _):
        with contextlib.nullcontext() if is_taken else wrong:
            assert (await client.send(audio("1"), ends=True)).text == "0.10"


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({"session": "mine"}, {}),
        ({"session": "mine"}, {"session": "yours"}),
        ({}, {"session": "yours"}),
    ],
)
async def test_a_chunk_without_the_streams_session_is_refused_and_the_stream_goes_on(own, sent):
    async with streaming(**own) as (client, components):
        await client.send(audio("1"))
        with pytest.raises(SessionError):
            await client.send(audio("2"), parameters=sent)
        with pytest.raises(SessionError):
            await client.send(audio("2"), parameters=sent, ends=True)
        answer = await client.send(audio("3"), ends=True)
    assert answer.text == "0.10 0.30"
    assert ended_once(components)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"wav": np.full((1, 100), np.nan, np.float32)}, AudioError, "NaN"),
        ({"wav": np.zeros((2, 100), np.float32)}, AudioError, "one row; sent: 2"),
        ({"wav": None, "audio": np.array([[b"x"]], object)}, AudioError, "PCM16 .* sent: AUDIO"),
        ({"wav": None}, AudioError, "PCM16 .* sent: neither"),
        ({"pcm16": np.zeros((1, 100), np.int16)}, AudioError, "sent: WAV and PCM16"),
        ({"wav": np.zeros((1, 40_000), np.float32)}, AudioError, "at most 2 s"),
        ({"sample_rate": np.array([[8000]], np.int32)}, AudioError, "with START only: it is 16000"),
        ({"parameters": {"beam_size": 3}}, OptionError, "'beam_size' can be chosen with START"),
    ],
)
async def test_a_bad_chunk_fails_alone_and_the_stream_goes_on(changes, error, message):
    async with streaming(max_chunk_s=2) as (client, components):
        await client.send(audio("1"))
        with pytest.raises(error, match=message):
            await client.send(audio("2"), **changes)
        answer = await client.send(audio("3"), ends=True)
    assert answer.text == "0.10 0.30"
    assert ended_once(components)


async def test_limits():
    async with serving(max_streams=2, max_stream_s=1.5) as (recognizer, components):
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
    assert ended_once(components)


async def test_a_deadline_is_kept_though_a_component_is_stuck_and_the_stream_is_freed_behind_it():
    async with streaming(deadline_ms=100) as (client, components):
        await client.send(audio("1"))
        call = components.call

        async def shielded(model, *args):
            work = asyncio.ensure_future(call(model, *args))
            work.add_done_callback(asyncio.Task.exception)  # which comes when nobody waits for it
            return await asyncio.shield(work)  # as a thread, that nobody can cancel

        components.call, stuck = shielded, components.hold("ctc_streaming_encoder")
        with pytest.raises(DeadlineError):
            await asyncio.wait_for(client.send(audio("2")), 5)
        assert len(client.recognizer.open_streams) == 0
        stuck.set()
    assert not any(components.open.values())


async def test_an_option_that_only_a_component_can_judge_ends_the_stream():
    async with streaming(language="de") as (client, components):
        await client.send(audio("1")[:100])
        components.failing = "ctc_streaming_decoder"
        components.failure = OptionError("option 'language' takes auto or en")
        with pytest.raises(OptionError):
            await client.send(audio("1"))
        components.failing = None
        with pytest.raises(SessionError):
            await client.send(audio("2"))
    assert not any(components.open.values())


async def test_chunks_too_small_for_a_step_keep_the_components_awake():
    async with streaming(stream_ttl_s=0.2) as (client, components):
        await client.send(audio("1"))
        calls = len(components.calls)
        while len(components.calls) == calls:
            await client.send(audio("2")[:10])
            await asyncio.sleep(0.005)
        assert set(components.calls[calls:]) <= {"ctc_streaming_encoder", "ctc_streaming_decoder"}
        answer = await client.send(audio(""), ends=True)
    assert answer.text == "0.10 0.20"


async def test_chunks_of_silence_keep_the_components_awake():
    async with streaming(stream_ttl_s=0.2) as (client, components):
        await client.send(audio("1.."))
        calls = components.calls.count("ctc_streaming_decoder")
        while components.calls.count("ctc_streaming_decoder") == calls:
            await client.send(audio("."))
            await asyncio.sleep(0.005)
        answer = await client.send(audio("2"), ends=True)
    assert answer.text == "0.10 0.20"
    assert ended_once(components)


async def test_too_much_audio_that_waits_ends_the_stream():
    async with streaming(max_waiting_s=3.2) as (client, components):  # five chunks
        sent = [client.send(audio("1")) for _ in range(8)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
    kinds = {type(item).__name__ for item in answers}
    assert "OverloadedError" in kinds
    assert not any(components.open.values())


@pytest.mark.parametrize(("length", "most"), [(STEP, 5), (160, 33), (0, 33)])
async def test_seconds_that_wait_limit_the_number_of_short_chunks_too(length, most):
    async with streaming(max_waiting_s=3.2 if length == STEP else 3.9) as (client, components):
        hearing = components.hold()
        begun = asyncio.create_task(client.send(audio("1")))  # counts as 0.64 s too
        chunk = audio("1")[:length]
        empty = {} if length else {"wav": audio("1")[np.newaxis, :1], "wav_lens": np.zeros((1, 1))}
        sent = [asyncio.create_task(client.send(chunk, **empty)) for _ in range(most - 1)]
        await asyncio.sleep(0)
        assert len(client.recognizer.open_streams) == 1
        one_more = asyncio.create_task(client.send(chunk, **empty))
        with pytest.raises(OverloadedError, match=r"max_waiting_s .*the stream has ended"):
            await one_more
        hearing.set()
        await asyncio.gather(begun, *sent, return_exceptions=True)


async def test_chunks_beyond_the_bytes_are_refused_and_the_stream_goes_on():
    # Each has 40,960 bytes; three quarters are for live audio.
    async with streaming(max_bytes_in_flight=120_000) as (client, components):
        hearing = components.hold()
        first, second = (asyncio.create_task(client.send(audio("1"))) for _ in range(2))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="max_bytes_in_flight"):
            await client.send(audio("2"))
        hearing.set()
        await asyncio.gather(first, second)
        answer = await client.send(audio("3"), ends=True)
    assert answer.text == "0.10 0.10 0.30"
    assert ended_once(components)


async def test_components_that_cannot_free_a_stream_are_named_in_the_log(caplog):
    async with streaming() as (client, components):
        await client.send(audio("1"))
        components.failing = "ctc_streaming_encoder"
        with pytest.raises(ComponentError):
            await client.send(audio("2"))
    assert not components.open["ctc_streaming_decoder"]
    (record,) = caplog.records
    assert "ctc_streaming_encoder: out of order" in record.getMessage()
    assert "ctc_streaming_decoder" not in record.getMessage()


async def test_streams_expire_though_the_sweep_has_failed_once(caplog):
    failing = []

    def clock():
        if failing:
            raise RuntimeError(failing.pop())
        return time.monotonic()

    async with serving(stream_ttl_s=0.2, clock=clock) as (recognizer, components):
        await Client(recognizer, components).send(audio("1"))
        failing.append("a defect")  # only the sweep looks at the clock now
        while len(recognizer.open_streams):
            await asyncio.sleep(0.01)
    assert "a defect" in caplog.text
    assert ended_once(components)
    assert len(components.ended) == 2


async def test_close_waits_until_the_components_have_freed_what_has_ended():
    async with serving() as (recognizer, components):
        await Client(recognizer, components, 1).send(audio("1"))
        held = components.hold("ctc_streaming_encoder", "ctc_streaming_decoder")
        # Another START of the id ends the first stream, whose components are slow to hear of it.
        await Client(recognizer, components, 1).send(audio("."), ends=True)
        closing = asyncio.create_task(recognizer.open_streams.close(timeout_s=60))
        await asyncio.sleep(0)
        assert not closing.done()
        assert not components.ended
        held.set()
        await closing
        assert len(components.ended) == 2


async def test_close_does_not_wait_for_ever():
    async with serving() as (recognizer, components):
        tasks = asyncio.all_tasks()
        await Client(recognizer, components, 1).send(audio("1"))
        components.before = lambda model: asyncio.sleep(0 if model == "vad" else 3600)
        await Client(recognizer, components, 1).send(audio("."), ends=True)
        await recognizer.open_streams.close(timeout_s=0.01)
        assert asyncio.all_tasks() == tasks


async def test_a_stream_that_is_abandoned_in_mid_speech_costs_no_second_pass():
    async with streaming(mode="two_pass", rolling_pass_ms=0) as (client, components):
        await client.send(audio("12"))
        calls = len(components.calls)
        client.parameters = {"abandon": True}
        answer = await client.send(audio(""), ends=True)
        assert (answer.text, answer.is_final, answer.duration) == ("", True, 1.28)
        await client.recognizer.open_streams.close(timeout_s=60)
        assert sorted(components.calls[calls:]) == [
            "ctc_streaming_decoder",
            "ctc_streaming_encoder",
        ]
        client.parameters = {}
        with pytest.raises(SessionError, match="send START"):
            await client.send(audio("3"))
        counted = client.recognizer.runtime.metrics.drain()
    assert counted[STREAMS_ENDED, ("abandoned",)] == 1
    assert ended_once(components)


@pytest.mark.parametrize(
    ("sent", "place"),
    [("yes", {"ends": True}), (False, {"ends": True}), (True, {}), (True, {"starts": True})],
)
async def test_only_an_end_abandons(sent, place):
    async with streaming() as (client, _):
        await client.send(audio("1"))
        parameters = client.parameters if place.get("starts") else {}
        with pytest.raises(OptionError, match=r"parameter 'abandon' takes true, with END alone"):
            await client.send(audio("2"), parameters={**parameters, "abandon": sent}, **place)
        assert len(client.recognizer.open_streams) == 1
