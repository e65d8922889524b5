"""The passes over an open utterance, on components that hear letters."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from clock import Clock
from plain_streams import STEP, ended_once, streaming
from spoken_components import RATE, SpokenComponents, columns, heard, made

from conch.families.whisper.recogniser import OPEN_WINDOW
from conch.recognition.live import rolling_passes as live_passes
from conch.recognition.live.scheduling import Pace
from conch.wire.result import text_of_words

TALK = "abcdefghijklmnop"
"""6.4 s, 10 steps."""


def rolling_calls(components) -> list[float]:
    """Return the seconds of audio of each rolling pass."""
    calls = zip(components.calls, components.parameters, components.inputs, strict=True)
    return [
        round(len(inputs["waveform"]) / 16_000, 2)
        for model, parameters, inputs in calls
        if model == "attention_encoder" and parameters == OPEN_WINDOW
    ]


def is_rolling(components, model: str) -> bool:
    """Report whether the latest call, of this model, is that of a rolling pass."""
    return model == "attention_encoder" and components.parameters[-1] == OPEN_WINDOW


def two_pass(components=None, **settings):
    settings = {"mode": "two_pass", "decoder": "attention", "adaptive": False, **settings}
    return streaming(components or SpokenComponents(), **settings)


async def in_steps(client, text: str, samples: int = STEP):
    """Send speech step by step, and return all answers, that of END last."""
    waveform = made(text)
    pieces = [waveform[at : at + samples] for at in range(0, len(waveform), samples)]
    answers = [await client.send(piece) for piece in pieces[:-1]]
    return [*answers, await client.send(pieces[-1], ends=True)]


async def stepwise(text: str, components=None, **options):
    async with two_pass(components, **options) as (client, components):
        return await in_steps(client, text), components


async def tasks_end() -> None:
    """Wait until no task is left but those of the test and the recognizer's sweep."""
    while left_over():
        await asyncio.sleep(0.001)


def left_over() -> set[str]:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    coroutines = [task.get_coro() for task in tasks]
    own = [one for one in coroutines if not one.cr_frame.f_globals["__name__"].startswith("anyio.")]
    return {one.__name__ for one in own} - {"_sweep"}


def shown(answer) -> tuple[str, str]:
    utterance = answer.utterance
    return text_of_words(utterance.firm), text_of_words(utterance.tentative)


async def test_a_pass_for_each_interval_of_speech():
    answers, components = await stepwise(TALK)
    assert rolling_calls(components) == [1.28, 2.56, 3.84, 5.12]
    assert components.calls.count("attention_encoder") == 5
    # The answer to a step has the pass that it began.
    assert [shown(answer) for answer in answers[:4]] == [
        ("", ""),
        ("", "a b c d"),
        ("", "a b c d"),
        ("a b c d", "e f g"),
    ]
    assert answers[3].stable == "a b c d"
    assert answers[3].utterance.heard_until == pytest.approx(2.56)
    assert answers[-1].text == " ".join(TALK)
    assert [answers[-1].rolling.made, answers[-1].rolling.interval_ms] == [4, 1280]
    assert ended_once(components)


async def test_answers_tell_the_calls_of_passes_once():
    answers, components = await stepwise(TALK)
    for model in ("attention_encoder", "attention_decoder", "ctc_streaming_encoder"):
        told = [answer.stages[model].calls for answer in answers if model in answer.stages]
        assert sum(told) == components.calls.count(model)
    # The first pass is over 1.28 s, which are there after the second chunk.
    assert "attention_encoder" not in answers[0].path
    assert "attention_encoder" in answers[1].path


async def test_a_pass_over_a_long_utterance_begins_with_some_firm_text():
    answers, components = await stepwise("abcdefghijklmnopqrstuvwxyz")
    assert len(rolling_calls(components)) == 8
    assert max(rolling_calls(components)) < 6
    assert answers[-2].text.startswith(" ".join("abcdefghijklmnopqrstuv"))


class SpokenToMoonshine(SpokenComponents):
    def moonshine_encoder(self, inputs, parameters):
        return self.attention_encoder(inputs, parameters)

    def moonshine_decoder(self, inputs, parameters):
        return self.attention_decoder(inputs, parameters)


def given(components, decoder: str) -> list[tuple[str | None, str | None]]:
    """Return what each call of a decoder was told of its text: its beginning, and what follows."""
    return [(sent.get("said"), sent.get("draft")) for sent in components.parameters_of(decoder)]


async def test_a_pass_of_moonshine_goes_on_from_the_firm_text():
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    answers, components = await stepwise(alphabet, SpokenToMoonshine(), decoder="moonshine")
    first, *rolling, second = given(components, "moonshine_decoder")
    assert first[0] == rolling[0][0] == ""
    # After each pass come the words of the CTC model since then, which are numbers here.
    assert rolling[0][1].startswith("a b c d")
    assert [said for said, _ in rolling[1:5]] == [
        "a b c d",
        "a b c d e f g",
        # The audio begins later.
        "d e f g h i j",
        "g h i j k l m",
    ]
    assert rolling[1][1].startswith("e f g 0")
    # That of the whole utterance, which all passes before have read.
    assert second[0] is None
    assert second[1].startswith("a b c d e f g h i j k l m n o p q r s t u v w")
    assert answers[-1].text == " ".join(alphabet)
    _, components = await stepwise(TALK)
    assert {*given(components, "attention_decoder")} == {(None, None)}


async def test_a_pass_joins_no_more_of_a_long_utterance_than_it_hears():
    _, components = await stepwise("abcdefghijklmnopqrstuvwxyz")
    assert len(rolling_calls(components)) == 8
    joined = [waveform.base for waveform in components.waveforms("attention_encoder")[:-1]]
    assert max(map(len, joined)) < 6 * RATE + STEP


@pytest.mark.parametrize("interval_ms", [640, 2560])
async def test_the_interval_is_the_streams(interval_ms):
    answers, components = await stepwise(TALK, rolling_pass_ms=interval_ms)
    # Within the first second there is none; the last step ends the stream.
    assert len(rolling_calls(components)) == {640: 8, 2560: 2}[interval_ms]
    assert answers[-1].rolling.skipped == 0


async def test_no_pass_in_silence():
    answers, components = await stepwise("....")
    assert "attention_encoder" not in components.calls
    answers, components = await stepwise("abcde" + "." * 4, rolling_pass_ms=640)
    assert rolling_calls(components) == [1.28, 1.92]
    assert answers[-1].text == "a b c d e"


async def test_none_while_somebody_speaks_but_the_one_in_a_pause():
    answers, components = await stepwise("abcdefgh..", rolling_pass_ms=0)
    assert rolling_calls(components) == []
    assert components.calls.count("attention_encoder") == 1
    assert answers[-1].rolling.interval_ms == 0


async def test_the_pass_in_a_pause_is_the_second_pass():
    answers, components = await stepwise("abcde.")
    assert rolling_calls(components) == [1.28]
    assert components.calls.count("attention_encoder") == 2
    # At the endpoint there is nothing to wait for.
    assert answers[3].segments == ()
    (segment,) = answers[4].segments
    assert (segment.text, segment.passes, segment.endpoint) == ("a b c d e", 2, "silence")
    assert answers[4].stable == "a b c d e"


async def test_if_the_speaker_goes_on_the_pass_in_a_pause_counts_as_rolling():
    answers, components = await stepwise("abcde--fghi.", rolling_pass_ms=2560)
    assert shown(answers[4]) == ("", "a b c d e")
    # Its audio ends at 2.3 s, so that the next one is due after 4.86 s: in the second pause.
    assert rolling_calls(components) == []
    assert components.calls.count("attention_encoder") == 2
    (segment,) = answers[-1].segments
    assert (segment.text, segment.passes) == ("a b c d e f g h i", 2)
    assert answers[-1].rolling.made == 2


async def test_a_pass_that_fails_leaves_the_text():
    async with two_pass() as (client, components):

        async def fail_later(model):
            is_late = components.calls.count("attention_encoder") > 1
            components.failing = "attention_encoder" if is_late else None

        components.before = fail_later
        answers = await in_steps(client, "abcdefgh..")
        counted = client.recognizer.runtime.metrics.drain()
    assert len(rolling_calls(components)) == 2
    assert [shown(answer) for answer in answers[2:5]] == [("", "a b c d")] * 3
    (segment,) = answers[-1].segments
    assert segment.error == "no second pass: attention_encoder: out of order"
    assert segment.text.startswith("a b c d ")
    assert counted[live_passes.PASSES, ("rolling", "failed")] == 1
    assert ended_once(components)


async def test_a_later_failure_of_passes_is_logged_if_it_is_another_one(caplog):
    failures = iter([ValueError("first"), *[ValueError("second")] * 2, KeyError("third")])
    async with two_pass() as (client, components):

        async def fail(model):
            if is_rolling(components, model):
                raise next(failures)

        components.before = fail
        await in_steps(client, TALK)
    assert len(rolling_calls(components)) == 4
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in logged] == ["first", "second", "'third'"]


async def test_failures_of_passes_are_logged_only_so_often(caplog):
    async with two_pass(rolling_pass_ms=640) as (client, components):

        async def fail(model):
            if is_rolling(components, model):
                raise ValueError(f"call {len(components.calls)}")

        components.before = fail
        await in_steps(client, TALK * 2)
    assert len(rolling_calls(components)) > live_passes.MOST_FAILURES
    told = [record for record in caplog.records if "rolling passes" in record.message]
    assert len(told) == live_passes.MOST_FAILURES


async def test_a_text_that_is_not_believed_leaves_the_text():
    def repeats(words, seconds):
        return words if seconds < 2 else words[:1] * 8

    answers, _ = await stepwise("abcdefg", SpokenComponents(repeats))
    assert [shown(answer) for answer in answers[2:4]] == [("", "a b c d")] * 2
    assert (answers[-1].rolling.made, answers[-1].rolling.refused) == (1, 1)


class Misspelled(SpokenComponents):
    """Its attention decoder writes `prin` for a `p`; a text with Prynne scores 2 nats less."""

    def __init__(self) -> None:
        super().__init__(lambda words, seconds: [self.spelled(word) for word in words])

    def attention_decoder(self, inputs, parameters):
        if "texts" in inputs:
            scores = [-2.0 * (b"Prynne" in text) for text in inputs["texts"]]
            return {"text_scores": np.array(scores, np.float32)}
        if "text" in inputs:
            texts = inputs["text"][0].decode().split()
            pairs = zip(heard(inputs["encoder_out"]), texts, strict=True)
            return columns([replace(word, text=text) for word, text in pairs])
        return super().attention_decoder(inputs, parameters)

    @staticmethod
    def spelled(word):
        return replace(word, text="prin") if word.text == "p" else word


@pytest.mark.parametrize(
    ("hotwords", "written"), [("", "prin"), ("Prynne:2", "prin"), ("Uncas, Prynne:4", "Prynne")]
)
async def test_a_rolling_pass_writes_a_hotword_that_loses_less_than_its_weight(hotwords, written):
    answers, components = await stepwise("apcdefghijklmnoq", Misspelled(), hotwords=hotwords)
    assert rolling_calls(components) == [1.28, 2.56, 3.84, 5.12]
    assert [shown(answer) for answer in answers[1:4]] == [
        *[("", f"a {written} c d")] * 2,
        (f"a {written} c d", "e f g"),
    ]
    assert answers[3].utterance.firm[1].start == pytest.approx(0.4, abs=0.02)
    assert answers[-1].text.split()[:3] == ["a", written, "c"]


@pytest.mark.parametrize("turns", [0, 40])
@pytest.mark.parametrize("samples", [3_000, STEP, 25_000, 4 * STEP])
async def test_not_adaptive_gives_the_same_text_however_chunks_are_cut(samples, turns):
    usual, usual_final = await found_by_time(STEP, 0)
    other, final = await found_by_time(samples, turns)
    utterances = [utterance for utterance, _ in usual.values() if utterance]
    assert len({utterance.firm for utterance in utterances}) > 3
    assert {at: usual[at][0] for at in other} == {at: parts[0] for at, parts in other.items()}
    # Of an ended utterance too, before its second pass.
    ended = {at: texts for at, (_, texts) in other.items() if texts and samples == STEP}
    assert ended == {at: usual[at][1] for at in ended}
    assert len(ended) >= 2 or samples != STEP
    assert final.text == usual_final.text


async def found_by_time(samples: int, turns: int):
    """Return open and ended utterances by their time, with rolling passes of so many turns."""
    async with two_pass(max_utterance_s=4.0, rolling_pass_ms=640) as (client, components):

        async def dawdle(model):
            is_open = components.parameters[-1] == OPEN_WINDOW
            is_second = model == "attention_encoder" and not is_open
            for _ in range(turns if is_open else 200 if is_second else 1):
                await asyncio.sleep(0)

        components.before = dawdle
        answers = await in_steps(client, "abcdefghijk-lm" + "nopqrstuvw.", samples)
        found = {}
        for answer in answers[:-1]:
            if answer.duration:
                texts = [item.text for item in answer.segments if item.passes == 1]
                found[answer.duration] = answer.utterance, texts
        return found, answers[-1]


async def test_a_pass_that_comes_after_the_endpoint_is_of_no_use():
    async with two_pass(adaptive=True) as (client, components):
        let_go = asyncio.Event()

        async def hold(model):
            await (let_go.wait() if is_rolling(components, model) else asyncio.sleep(0))

        components.before = hold
        waveform = made("abcd" + "." + "xy")
        steps = [waveform[at : at + STEP] for at in range(0, len(waveform), STEP)]
        answers = [await client.send(step) for step in steps]
        let_go.set()
        for _ in range(20):
            await asyncio.sleep(0)
        after = await client.send(made("z")[:100])
        answers = [*answers, after, await client.send(made("z"), ends=True)]
    assert len(rolling_calls(components)) == 1
    after = answers[-2]
    assert (after.utterance.firm, after.utterance.tentative) == ((), ())
    assert after.utterance.heard_until == 0
    assert after.rolling.late_ms >= 0
    assert answers[-1].text == "a b c d x y z"


async def test_an_end_waits_for_all_second_passes_and_leaves_nothing():
    async with two_pass(adaptive=True) as (client, components):
        let_go = components.hold("attention_encoder")
        last = asyncio.create_task(client.send(made(TALK + "." + "abc-xyz"), ends=True))
        while components.in_flight < 3:  # rolling, and both second passes
            await asyncio.sleep(0)
        assert not last.done()
        let_go.set()
        final = await last
        await tasks_end()
    assert [segment.passes for segment in final.segments] == [2, 2]
    assert final.text == " ".join(TALK + "abcxyz")
    assert ended_once(components)


@pytest.mark.parametrize("text", ["abcdefgh", "abcdefgh-"])
async def test_a_stream_that_is_given_up_leaves_neither_tasks_nor_places(text):
    async with two_pass(max_passes_in_flight=1, adaptive=True) as (client, components):
        let_go = components.hold("attention_encoder")
        await client.send(made(text))
        assert components.in_flight == 1
        client.is_new = True
        await client.send(made("a"))
        let_go.set()
        await tasks_end()
        assert components.in_flight == 0
        final = await client.send(made("bc.."), ends=True)
    assert (final.text, final.segments[0].passes) == ("a b c", 2)
    assert ended_once(components)


@pytest.mark.parametrize(
    ("stretch", "adaptive", "rolling", "others"),
    [(1.0, True, 1, 1), (6.0, True, 0, 1), (9.0, True, 0, 1), (9.0, False, 1, 1)],
)
async def test_load_takes_away_rolling_passes_then_those_in_pauses(
    stretch, adaptive, rolling, others
):
    async with two_pass(adaptive=adaptive) as (client, components):
        client.recognizer.open_streams._shared.load.pace = Pace(stretch)
        in_pause = await client.send(made("abcde--")[: 4 * STEP])
        await tasks_end()
        calls = components.calls.count("attention_encoder")
        final = await client.send(made(".."), ends=True)
    assert len(rolling_calls(components)) == rolling
    assert components.calls.count("attention_encoder") == rolling + others
    assert calls == (rolling + 1 if stretch < 8 or not adaptive else 0)
    assert final.segments[0].passes == 2
    assert in_pause.rolling.interval_ms == (1280 if rolling else 0)


async def test_a_file_has_no_more_passes_than_its_speaker_would_have():
    clock = Clock()

    async def passes(step_s: float) -> int:
        async with two_pass(adaptive=True, clock=clock) as (client, _):
            client.clock = None  # the test moves it
            for at in range(0, 10 * STEP, STEP):
                clock.now += step_s
                answer = await client.send(made(TALK)[at : at + STEP])
                for _ in range(20):
                    await asyncio.sleep(0)
            await client.send(made("z"), ends=True)
            return answer.rolling

    assert (await passes(0.64)).made == 4
    # 10 times as fast: the first one alone, and those that were left out are told.
    fast = await passes(0.064)
    assert fast.made == 1
