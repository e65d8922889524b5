"""Live sessions over a client that never reaches a server, in virtual time."""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from plain_live import RATE, PlainLiveClient, spoken

from conch.client.live import AsyncLiveStream
from conch.client.tensors import Request
from conch.gateway.live_segments import LiveSegment, SegmentChanges
from conch.gateway.live_session import (
    KEEP_ALIVE_S,
    MAX_WAITING,
    PATIENCE_S,
    PENDING_S,
    QUIET_S,
    LiveSession,
    LiveUpdate,
    joined,
    wait_for_more_s,
)
from conch.gateway.servers import SessionClient
from conch.wire.errors import (
    ComponentError,
    ConchError,
    OptionError,
    OverloadedError,
    PoisonError,
    ServerLostError,
    UnreachableError,
)
from conch.wire.result import Hypothesis, RollingPasses, Segment, Transcript, Word

pytestmark = pytest.mark.virtual_time


def session(client: PlainLiveClient, **settings) -> LiveSession:
    settings = {"sample_rate": RATE, "max_backlog_s": 30.0, **settings}
    return LiveSession(cast(SessionClient, client), settings.pop("options", {}), **settings)


async def collect(live: LiveSession) -> list[LiveUpdate]:
    return [update async for update in live.updates()]


def segments(updates: list[LiveUpdate]) -> list[tuple[int, str, bool]]:
    return [
        (item.segment.index, item.segment.text, item.is_final)
        for update in updates
        for item in update.segments
    ]


def final_texts(updates: list[LiveUpdate]) -> list[str]:
    return [text for _, text, is_final in segments(updates) if is_final]


async def of_all(client: PlainLiveClient, *steps, **settings) -> list[LiveUpdate]:
    """Return the updates of a session: steps are audio, seconds to wait, or a method's name."""
    async with session(client, **settings) as live:
        collecting = asyncio.create_task(collect(live))
        for step in steps:
            if isinstance(step, np.ndarray):
                await live.feed(step)
            elif isinstance(step, str):
                getattr(live, step)()
            else:
                await asyncio.sleep(step)
        live.close()
        return await collecting


async def test_an_utterance_is_told_open_then_ended_then_final() -> None:
    updates = await of_all(PlainLiveClient(), spoken(1, 1.0), 1, spoken(0, 0.5), 2)
    assert updates[0].utterance.text == "one"
    assert updates[0].audio_s == 1.0
    assert segments(updates) == [(0, "one", False), (0, "ONE", True)]
    (ended,) = next(update for update in updates if update.segments).segments
    assert (ended.segment.start, ended.segment.end, ended.segment.endpoint) == (0, 1, "silence")
    assert updates[-1].utterance is None and updates[-1].index == 1
    assert updates[-1].audio_s == 1.5


async def test_of_one_pass_a_segment_is_final_at_once() -> None:
    updates = await of_all(
        PlainLiveClient(), spoken(1, 1.0), spoken(0, 0.5), 1, options={"mode": "streaming"}
    )
    assert segments(updates) == [(0, "one", True)]


async def test_frames_that_wait_are_joined() -> None:
    client = PlainLiveClient(latency_s=1.0)
    frames = [spoken(1, 0.02)] * 600
    await of_all(client, *frames)
    assert [sent.seconds for sent in client.sent] == [5.0, 5.0, 2.0, 0.0]
    assert [sent.ends for sent in client.sent] == [False, False, False, True]


@pytest.fixture(name="client")
def plain_client() -> PlainLiveClient:
    return PlainLiveClient()


async def test_less_than_a_chunk_waits_until_no_more_comes(client: PlainLiveClient) -> None:
    await of_all(client, spoken(1, 0.1), 0.1, spoken(1, 0.1), 1.0, spoken(1, 0.1), 1.0)
    assert [(sent.at, sent.seconds) for sent in client.sent if sent.seconds] == [
        (pytest.approx(0.1), 0.2),
        (pytest.approx(1.1 + QUIET_S), 0.1),
    ]


async def test_without_joining_each_frame_is_a_chunk() -> None:
    client = PlainLiveClient(latency_s=1.0)
    frames = [spoken(1, length) for length in (0.02, 0.5, 0.001)]
    updates = await of_all(client, *frames, joins=False)
    assert [sent.seconds for sent in client.sent] == [0.02, 0.5, 0.001, 0.0]
    assert [update.is_keep_alive for update in updates] == [False] * 4


async def test_a_pass_that_is_to_come_is_asked_for_soon_and_a_stream_is_kept(
    client: PlainLiveClient,
) -> None:
    await of_all(client, spoken(1, 1.0), spoken(0, 0.5), 100.0)
    times = [sent.at for sent in client.sent if not sent.ends]
    # The second answer has the second pass, and from then on nothing is to come.
    assert np.diff(times) == pytest.approx([PENDING_S] + [KEEP_ALIVE_S] * 4)


async def test_an_open_utterance_is_asked_for_while_a_pass_may_come(
    client: PlainLiveClient,
) -> None:
    await of_all(client, spoken(1, 1.0), 200.0)
    times = [sent.at for sent in client.sent if not sent.ends]
    gaps = np.diff(times)
    assert gaps[: int(PATIENCE_S / PENDING_S) - 1] == pytest.approx(PENDING_S)
    assert gaps[-3:] == pytest.approx(KEEP_ALIVE_S)


async def test_a_step_that_is_not_complete_is_looked_at_while_audio_has_stopped() -> None:
    client = PlainLiveClient(step_s=2.0)
    updates = await of_all(client, spoken(1, 1.0), spoken(0, 0.6), 100.0, spoken(2, 1.0), 100.0)
    assert [(text, is_final) for _, text, is_final in segments(updates)] == [
        *(("one", False), ("ONE", True)),
        ("TWO", True),
    ]
    times = [sent.at for sent in client.sent if not sent.ends]
    # The first look ends the utterance, and the second one has its second pass.
    assert np.diff(times)[:3] == pytest.approx([PENDING_S, PENDING_S, KEEP_ALIVE_S])
    assert updates[-1].audio_s == 2.6


async def test_nothing_is_sent_before_the_first_audio(client: PlainLiveClient) -> None:
    assert await of_all(client, 500.0) == []
    assert client.options == []


async def test_finalize_ends_the_utterance_and_the_clock_goes_on(client: PlainLiveClient) -> None:
    updates = await of_all(
        *(client, spoken(1, 1.0), "finalize", spoken(2, 1.0), 1.0, "finalize", 5.0, spoken(3, 0.1)),
        options={"word_timestamps": True},
    )
    assert segments(updates) == [(0, "ONE", True), (1, "TWO", True), (2, "THREE", True)]
    ended = [item.segment for update in updates for item in update.segments]
    assert [item.start for item in ended] == [0.0, 1.0, 2.0]
    assert [item.end for item in ended] == [1.0, 2.0, 2.1]
    assert [item.words[0].start for item in ended] == [0.0, 1.0, 2.0]
    assert [item.endpoint for item in ended] == ["finalize", "finalize", "end"]
    assert [len(update.segments) for update in updates if update.finalized] == [1, 1]
    assert len(client.options) == 3 and client.open == set()
    assert max(update.audio_s for update in updates) == 2.1


async def test_finalize_of_nothing_is_answered(client: PlainLiveClient) -> None:
    updates = await of_all(client, "finalize", 1.0, "finalize")
    assert [(update.finalized, update.segments) for update in updates] == [(True, ())] * 2
    assert client.sent == []


async def test_clear_throws_away_what_is_open_and_waits() -> None:
    client = PlainLiveClient(latency_s=0.3)
    updates = await of_all(
        client, spoken(1, 1.0), 0.1, spoken(2, 1.0), "clear", spoken(3, 1.0), 2.0, "clear"
    )
    assert segments(updates) == []
    assert [update.audio_s for update in updates if update.cleared] == [2.0, 3.0]
    assert sum(sent.seconds for sent in client.sent) == pytest.approx(2.0)
    assert client.open == set()
    three = next(u for u in updates if u.utterance and u.utterance.text == "three")
    assert (three.utterance.start, three.index) == (2.0, 0)


async def test_clear_keeps_what_ended_and_what_is_finalized() -> None:
    client = PlainLiveClient(latency_s=1.0)
    updates = await of_all(
        *(client, spoken(1, 1.0), spoken(0, 0.5), spoken(2, 1.0), 1.5, "clear"),
        *(spoken(3, 1.0), "finalize", spoken(4, 1.0), "clear", spoken(5, 1.0)),
    )
    assert segments(updates) == [
        *((0, "one", False), (0, "ONE", True)),
        *((1, "THREE", True), (2, "FIVE", True)),
    ]
    starts = [item.segment.start for update in updates for item in update.segments]
    assert starts == [0.0, 0.0, 2.5, 4.5]


async def test_other_options_are_those_of_the_next_stream(client: PlainLiveClient) -> None:
    async with session(client, options={"language": "en"}) as live:
        collecting = asyncio.create_task(collect(live))
        await live.feed(spoken(1, 1.0))
        with pytest.raises(OptionError, match="beam_size"):
            live.reconfigure({"beam_size": 0})
        live.reconfigure({"mode": "streaming"})
        await live.feed(spoken(2, 1.0))
        live.reconfigure({"mode": "streaming"})
        live.close()
        updates = await collecting
    assert segments(updates) == [(0, "ONE", True), (1, "two", True)]
    assert [options.get("language") for options in client.options] == ["en", None]
    assert [options.get("mode") for options in client.options] == [None, "streaming"]
    assert not any(update.finalized for update in updates)


async def test_options_go_to_the_server_with_a_short_history_unless_sent(
    client: PlainLiveClient,
) -> None:
    await of_all(client, spoken(1, 1.0), request_id="sess_1")
    assert client.options[0]["history_s"] == 1
    assert client.options[0]["request_id"] == "sess_1"
    await of_all(client, spoken(1, 1.0), options={"history_s": 60})
    assert client.options[1]["history_s"] == 60
    with pytest.raises(OptionError, match="nonsense"):
        session(client, options={"nonsense": 1})


async def test_audio_waits_until_the_server_has_room() -> None:
    client = PlainLiveClient(is_answering=asyncio.Event())
    async with session(client, max_backlog_s=2.0) as live:
        collecting = asyncio.create_task(collect(live))
        await live.feed(spoken(1, 1.0))
        await asyncio.sleep(1.0)
        await live.feed(spoken(1, 2.0))
        further = asyncio.create_task(live.feed(spoken(2, 0.5)))
        await asyncio.sleep(5.0)
        assert not further.done()
        assert live.audio_s == 3.0 and live.backlog_s == 2.0
        client.is_answering.set()
        await further
        live.close()
        assert final_texts(await collecting) == ["ONE TWO"]


async def test_frames_and_requests_wait_if_too_many_do() -> None:
    client = PlainLiveClient(is_answering=asyncio.Event())
    async with session(client) as live:
        await live.feed(spoken(1, 1.0))
        await asyncio.sleep(1.0)
        for _ in range(MAX_WAITING):
            await live.feed(spoken(1, 0.001))
        live.finalize()
        waiting = asyncio.create_task(live.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        live.close()  # whoever waits need not
        await waiting
        client.is_answering.set()


async def test_a_server_without_progress_sends_a_client_away_that_waits() -> None:
    client = PlainLiveClient(is_answering=asyncio.Event())
    async with session(client, max_backlog_s=2.0) as live:
        await live.feed(spoken(1, 1.0))
        await asyncio.sleep(1.0)
        await live.feed(spoken(1, 2.0))
        with pytest.raises(OverloadedError, match="has taken no audio for 25 s"):
            await live.feed(spoken(1, 0.5))
        assert live.audio_s == 3.0
        client.is_answering.set()


async def test_updates_that_nobody_takes_stop_the_audio(client: PlainLiveClient) -> None:
    async with session(client) as live:
        with pytest.raises(OverloadedError):
            for _ in range(1000):
                await live.feed(spoken(1, 1.0))
                await asyncio.sleep(1.0)
        assert len(client.sent) < 50
    assert client.open == set()


async def test_samples_after_the_end_are_left_out() -> None:
    async with session(PlainLiveClient()) as live:
        live.close()
        await live.feed(spoken(1, 1.0))
        assert live.audio_s == 0.0


async def test_a_failure_of_the_server_ends_the_updates() -> None:
    client = PlainLiveClient(
        fail=lambda sent: ComponentError("broken") if sent.seconds > 1 else None
    )
    updates = []
    async with session(client) as live:
        await live.feed(spoken(1, 1.0))
        with pytest.raises(ComponentError, match="broken"):
            async for update in live.updates():
                updates.append(update)
                await live.feed(spoken(2, 2.0))
        await live.feed(spoken(1, 1.0))
    assert len(updates) == 1
    assert client.open == set()


LOST = ServerLostError("lost the connection", had_request=False)
TALK = (
    *(spoken(1, 0.6), 1, spoken(0, 0.1), 1, spoken(2, 0.6), 1, spoken(0, 0.5), 1),
    *(spoken(3, 0.6), 1, "finalize", spoken(4, 0.6), 1, spoken(0, 0.7), 1, spoken(5, 0.3)),
)


def fails_at(*numbers: int, error: ConchError = LOST) -> PlainLiveClient:
    """Return a client whose server is lost with the chunks of these numbers, from 1."""
    client = PlainLiveClient(fail=lambda sent: error if len(client.sent) in numbers else None)
    return client


def text_of_updates(updates: list[LiveUpdate]) -> str:
    """Return the text of all utterances, without the case of their passes."""
    return " ".join(filter(None, final_texts(updates))).lower()


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_a_server_that_is_lost_at_any_chunk_costs_no_word(mode: str) -> None:
    whole = await of_all(client := fails_at(), *TALK, options={"mode": mode})
    assert text_of_updates(whole) == "one two three four five"
    for number in range(1, len(client.sent) + 1):
        lossy = fails_at(number)
        updates = await of_all(lossy, *TALK, options={"mode": mode})
        assert text_of_updates(updates) == text_of_updates(whole), number
        assert [update.audio_s for update in updates if update.finalized] == [2.4]
        assert updates[-1].audio_s == whole[-1].audio_s
        indices = [item.segment.index for u in updates for item in u.segments if item.is_final]
        assert indices == list(range(len(indices)))
        starts = [item.segment.start for u in updates for item in u.segments if item.is_final]
        assert starts == sorted(starts)
        assert len(lossy.streams) == len(client.streams) + 1 and lossy.open == set()


async def test_without_joining_each_frame_has_one_answer_after_a_loss_too() -> None:
    frames = [spoken(1, 0.6), spoken(0, 0.1), spoken(2, 0.6), spoken(0, 0.5), spoken(3, 0.6)]
    for number in range(1, 6):
        updates = await of_all(fails_at(number), *frames, joins=False)
        answers = [update for update in updates if not update.is_keep_alive]
        assert [round(item.transcript.duration, 3) for item in answers[:5]] == [
            *(0.6, 0.7, 1.3, 1.8, 2.4)
        ], number
        assert len(answers) == 6 and answers[-1].transcript.is_final


async def lost_for_good(client: PlainLiveClient) -> tuple[list[LiveUpdate], ConchError]:
    """Return the updates of a session whose server is lost after a second, and its error."""
    updates = []
    async with session(client) as live:
        await live.feed(np.concatenate([spoken(1, 0.6), spoken(0, 0.1), spoken(2, 0.6)]))
        with pytest.raises(ConchError) as caught:
            async for update in live.updates():
                updates.append(update)
                await live.feed(spoken(3, 0.6))
    return updates, caught.value


async def test_of_a_server_that_stays_lost_the_firm_text_is_finished() -> None:
    client = PlainLiveClient(fail=lambda sent: LOST if len(client.sent) > 1 else None)
    updates, error = await lost_for_good(client)
    assert type(error) is UnreachableError  # it was lost by no fault of the audio
    assert str(error).startswith("the server was lost, and the stream went on in no other")
    (ended,) = updates[-1].segments
    assert (ended.segment.text, ended.segment.endpoint, ended.is_final) == ("one two", "lost", True)
    assert updates[-1].utterance is None
    # A client that goes on elsewhere hears all the rest again.
    assert updates[-1].cut == updates[-2].cut


async def test_audio_that_ends_two_servers_ends_its_session(client: PlainLiveClient) -> None:
    def dies(sent: object) -> ConchError | None:
        return ServerLostError("Socket closed") if len(client.sent) > 1 else None

    client.fail = dies
    updates, error = await lost_for_good(client)
    assert isinstance(error, PoisonError)
    assert final_texts(updates) == ["one two"]
    assert len(client.streams) == 2


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_words_that_an_earlier_session_has_told_are_left_out(mode: str) -> None:
    steps = (spoken(1, 0.6), spoken(0, 0.1), spoken(2, 0.6), spoken(0, 0.5), 1, spoken(1, 0.5), 1)
    client = PlainLiveClient()
    updates = await of_all(client, *steps, sent_before_s=0.6, options={"mode": mode})
    assert [text.lower() for text in final_texts(updates)] == ["two", "one"]
    shown = [update.utterance.text for update in updates if update.utterance]
    assert "one two" not in shown
    assert not any(item.segment.words for update in updates for item in update.segments)


async def changed_by(*answers: Transcript) -> list[tuple[LiveSegment, ...]]:
    """Return the segments that each answer of a stream has changed."""
    results = iter(answers)

    async def infer(request: Request) -> Transcript:
        return replace(next(results), is_final=False)

    settings: Any = {"sample_rate": RATE, "timeout_s": 1.0, "model": "speech", "resume_s": 1.0}
    stream, changes = AsyncLiveStream(infer, options={}, **settings), SegmentChanges()
    return [
        changes.of(await stream.send(spoken(1, 1.0)), stream.joined.news, "end") for _ in answers
    ]


async def test_an_utterance_that_is_heard_again_has_no_error() -> None:
    gone = Segment(0.0, 1.0, (Hypothesis("", 0, 0),), endpoint="lost", error="no second pass")
    answer = Transcript(gone.nbest, (gone,), 1.0, (), {}, rolling=RollingPasses(1280))
    (item,) = (await changed_by(answer))[0]
    assert item.is_final and not item.segment.error


@pytest.mark.parametrize("leave_at", [0.0, 0.05, 0.1, 1.0, 1.2, 1.5, 3.0])
async def test_leaving_at_any_moment_frees_the_stream(leave_at: float) -> None:
    client = PlainLiveClient(latency_s=0.4)
    async with session(client) as live:
        for start in (0.0, 1.0):
            await live.feed(spoken(1, 1.0))
            await asyncio.sleep(max(0.0, min(leave_at - start, 1.0)))
        live.finalize()
    assert client.open == set()
    assert not client.sent or client.sent[-1].ends


async def test_leaving_by_cancellation_frees_the_stream() -> None:
    client = PlainLiveClient(latency_s=0.4)

    async def hold() -> None:
        async with session(client) as live:
            await live.feed(spoken(1, 1.0))
            await collect(live)

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0.1)
    assert client.open == {0}
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert client.open == set()


async def test_a_request_that_takes_long_is_not_cancelled_and_its_stream_ends_after_it(
    client: PlainLiveClient,
) -> None:
    freeing: set[asyncio.Task[None]] = set()
    client.is_answering = asyncio.Event()
    async with session(client, freeing=freeing) as live:
        await live.feed(spoken(1, 1.0))
        await asyncio.sleep(0.1)
    assert (len(client.sent), len(freeing)) == (1, 1)
    client.is_answering.set()
    await asyncio.gather(*freeing)
    assert client.open == set()
    assert [sent.ends for sent in client.sent] == [False, True]
    assert not freeing


async def test_updates_end_when_the_session_is_left() -> None:
    async with session(PlainLiveClient()) as live:
        collecting = asyncio.create_task(collect(live))
        await live.feed(spoken(1, 1.0))
        await asyncio.sleep(1.0)
    assert [update.utterance.text for update in await collecting][:1] == ["one"]


async def test_a_long_session_goes_on_in_another_stream_at_the_end_of_an_utterance(
    client: PlainLiveClient,
) -> None:
    steps = [step for _ in range(10) for step in (spoken(1, 1.0), 1.0, spoken(0, 1.0), 1.0)]
    updates = await of_all(client, *steps, max_stream_s=8.0)
    assert [text for text in final_texts(updates)] == ["ONE"] * 10
    finals = [i.segment for u in updates for i in u.segments if i.is_final]
    assert [item.start for item in finals] == [2.0 * number for number in range(10)]
    assert [item.index for item in finals] == list(range(10))
    assert len(client.options) == 3 and client.open == set()
    lengths = [
        sum(sent.seconds for sent in client.sent if sent.stream == number) for number in range(3)
    ]
    assert lengths == [8.0, 8.0, 4.0]


async def test_speech_without_an_end_goes_on_in_another_stream_too(client: PlainLiveClient) -> None:
    updates = await of_all(
        client, *[step for _ in range(10) for step in (spoken(1, 1), 1)], max_stream_s=4
    )
    ended = [i.segment for u in updates for i in u.segments]
    assert [(item.start, item.end, item.endpoint) for item in ended] == [
        *((0.0, 4.0, "length"), (4.0, 8.0, "length")),
        (8.0, 10.0, "end"),
    ]


@pytest.mark.parametrize("seed", range(8))
async def test_frames_of_any_length_and_pace_give_the_same_texts(seed: int) -> None:
    random = np.random.default_rng(seed)
    audio = np.concatenate(
        [spoken(number, length) for number in (1, 2, 0, 3, 0, 4, 5, 0) for length in (0.7,)]
    )
    cuts = np.sort(random.integers(0, len(audio), 30))
    steps: list = []
    for frame in np.split(audio, cuts):
        steps += [frame, float(random.choice([0.0, 0.05, 0.6]))]
    updates = await of_all(PlainLiveClient(latency_s=float(random.random())), *steps)
    assert final_texts(updates) == ["ONE TWO", "THREE", "FOUR FIVE"]


def test_what_waits_is_joined_up_to_a_mark_and_a_length() -> None:
    pieces = [np.arange(3), np.arange(3, 5), np.arange(5, 9)]
    waiting: deque = deque([*pieces, lambda: asyncio.sleep(0), np.arange(2)])
    assert joined(waiting, 4).tolist() == [0, 1, 2, 3]
    assert joined(waiting, 100).tolist() == [4, 5, 6, 7, 8]
    assert len(waiting) == 2


def test_a_chunk_waits_for_more_only_while_it_is_short() -> None:
    assert wait_for_more_s(0.16, 0.0) == 0.0
    assert wait_for_more_s(0.15, 0.05) == pytest.approx(QUIET_S - 0.05)
    assert wait_for_more_s(0.15, 9.0) == 0.0


async def test_a_segment_whose_speakers_change_is_told_again_and_a_repeated_one_is_not() -> None:
    said = Segment(0.0, 1.0, (Hypothesis("one", 0, 0),), (Word("one", 0.0, 1.0, 0.5),))

    async def segments_of(*speakers: str) -> list[list[tuple[str, bool]]]:
        answers = []
        for who in speakers:
            words = tuple(replace(word, speaker=who) for word in said.words)
            segment = replace(said, words=words, speaker=who)
            answers.append(Transcript(said.nbest, (segment,), 1.0, (), {}))
        return [
            [(item.segment.speaker, item.is_relabelled) for item in items]
            for items in await changed_by(*answers)
        ]

    assert await segments_of("A", "A", "B", "B") == [[("A", False)], [], [("B", True)], []]
