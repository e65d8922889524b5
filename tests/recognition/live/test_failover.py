"""Live streams whose components die and come back, in virtual time."""

import asyncio
from itertools import pairwise

import pytest
import virtual_time
from mortal_components import MortalComponents
from plain_recognizer import recognizer_on
from plain_streams import Client, audio, ended_once, serving

from conch.bls.call import ComponentAwayError
from conch.recognition.metrics import STREAMS_RESUMED
from conch.wire.errors import SessionError

SPOKEN = "12.3...45.6..7"
STREAMING = ["ctc_streaming_encoder", "ctc_streaming_decoder"]
ALL = [*STREAMING, "vad", "moonshine_encoder", "moonshine_decoder"]


class Forgetful(MortalComponents):
    """Components that hear every word otherwise after they have died."""

    def ctc_streaming_encoder(self, inputs, parameters, kept):
        found = super().ctc_streaming_encoder(inputs, parameters, kept)
        levels = found["log_probs"]
        levels[levels > 0] += 0.01 * sum(self.lives.values())
        return found


async def stream(*, dies=(), at=None, during=False, kind=MortalComponents, **parameters):
    """Send SPOKEN step by step; return all answers, the components and the recognizer.

    Args:
        dies: Components that die.
        at: Step before which they die.
        during: Whether they die while a call of theirs for this step is under way.
        kind: Kind of components.
        parameters: Options of the stream.
    """
    components = kind()
    recognizer = recognizer_on(components)
    client = Client(recognizer, components, **parameters)
    answers, replaced = [], []
    for number, letter in enumerate(SPOKEN):
        if number == at:

            async def die(late=0.005 if during else 0.0):
                await asyncio.sleep(late)
                for model in dies:
                    components.kill(model)
                    replaced.append(asyncio.create_task(components.replace(model)))

            replaced.append(asyncio.create_task(die()))
            if not during:
                await asyncio.sleep(0.001)
        answers.append(await client.send(audio(letter)))
    answers.append(await client.send(audio(""), ends=True))
    await asyncio.gather(*replaced)
    await recognizer.open_streams.close(30)
    return answers, components, recognizer


@pytest.fixture(scope="module")
def undisturbed():
    """Return the last answer where no component dies, by the mode."""
    modes = ("streaming", "two_pass")
    return {mode: virtual_time.run(stream(mode=mode, adaptive=False))[0][-1] for mode in modes}


@pytest.mark.virtual_time
@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize("dies", [*([model] for model in ALL), STREAMING, ALL], ids="+".join)
@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_a_stream_outlives_its_components_and_no_word_is_lost(
    undisturbed, mode, dies, during, caplog
):
    last = undisturbed[mode]
    for at in range(len(SPOKEN)):
        answers, components, _ = await stream(
            mode=mode, adaptive=False, dies=dies, at=at, during=during
        )
        final = answers[-1]
        assert final.text == last.text, at
        assert final.duration == last.duration
        if mode == "two_pass":
            assert [item.text for item in final.segments] == [item.text for item in last.segments]
        assert ended_once(components), at
    assert "END of the components' stream" not in caplog.text


@pytest.mark.virtual_time
@pytest.mark.parametrize("vad", [True, False])
@pytest.mark.parametrize("dies", STREAMING)
async def test_what_was_firm_stays_and_comes_once(dies, vad):
    for at in range(len(SPOKEN)):
        options = {"mode": "streaming", "vad": vad, "word_timestamps": True, "repeat_text": True}
        answers, *_ = await stream(dies=[dies], at=at, kind=Forgetful, **options)
        for before, after in pairwise(answers):
            assert after.stable.startswith(before.stable)
        final = answers[-1]
        assert [word.text for word in final.words] == final.text.split()
        assert [segment.index for segment in final.segments] == list(range(len(final.segments)))
        for segment, following in pairwise(final.segments):
            assert segment.start <= segment.end <= following.start


@pytest.mark.virtual_time
@pytest.mark.parametrize("dies", STREAMING)
async def test_a_stream_that_goes_on_is_counted_and_its_old_state_is_freed(dies):
    _, components, recognizer = await stream(dies=[dies], at=1, mode="two_pass")
    assert recognizer.runtime.metrics.drain()[STREAMS_RESUMED, ()] == 1
    (other,) = set(STREAMING) - {dies}
    assert len([model for model, _ in components.ended if model == other]) == 2
    assert len([model for model, _ in components.ended if model == dies]) == 1


@pytest.mark.parametrize("dies", STREAMING)
@pytest.mark.parametrize("before", ["12", "12.."])
async def test_a_keep_alive_that_finds_a_component_replaced_loses_nothing(before, dies):
    """While somebody speaks, and in silence."""
    async with serving(MortalComponents(0), stream_ttl_s=0.2) as (recognizer, components):
        client = Client(recognizer, components, repeat_text=True)
        for letter in before:
            await client.send(audio(letter))
        components.kill(dies)
        components.load(dies)
        calls = len(components.calls)
        while dies not in components.calls[calls:]:
            await client.send(audio("")[:0])
            await asyncio.sleep(0.005)
        answer = await client.send(audio("")[:0])
        final = await client.send(audio("3"), ends=True)
    assert answer.text == "0.10 0.20"
    assert final.text == "0.10 0.20 0.30"
    assert ended_once(components)


@pytest.mark.virtual_time
async def test_a_stream_whose_component_does_not_come_back_ends_with_an_error_that_says_so():
    components = MortalComponents()
    recognizer = recognizer_on(components)
    client = Client(recognizer, components)
    await client.send(audio("1"))
    components.unload("ctc_streaming_encoder")
    with pytest.raises(ComponentAwayError, match=r"encoder .* not back within 15 s"):
        await client.send(audio("2"))
    with pytest.raises(SessionError, match="send START"):
        await client.send(audio("3"))
    await recognizer.open_streams.close(30)
    assert ended_once(components)


@pytest.mark.virtual_time
async def test_a_defect_of_a_second_pass_leaves_the_text_of_the_first(monkeypatch):
    async def defect(*args):
        raise ZeroDivisionError

    monkeypatch.setattr("conch.recognition.live.second_passes.recognize_complete", defect)
    answers, *_ = await stream(mode="two_pass", rolling_pass_ms=0)
    final = answers[-1]
    assert final.text == "0.10 0.20 0.30 0.40 0.50 0.60 0.70"
    assert all("no second pass: internal error" in segment.error for segment in final.segments)
