"""The live path on plain functions: order, silence, endpoints, times."""

import asyncio
import contextvars
import gc
import logging

import numpy as np
import pytest
from clock import Clock
from plain_components import PlainComponents
from plain_streams import STEP, Client, audio, ended_once, serving, streaming
from spoken_components import RATE, SpokenComponents, made

from conch.bls.metrics import CALLS
from conch.families.whisper.recogniser import OPEN_WINDOW
from conch.recognition.live.sending_speed import SendingSpeed
from conch.recognition.metrics import AUDIO_SECONDS, CHUNKS, ENDPOINTS, STREAMS_ENDED
from conch.wire.errors import SessionError
from conch.wire.result import text_of_words


async def test_every_chunk_is_answered_with_the_text_so_far():
    async with streaming() as (client, components):
        answers = await client.say("123")
    assert [item.text for item in answers] == ["0.10", "0.10 0.20", "0.10 0.20 0.30"]
    assert [item.stable for item in answers] == ["", "0.10", "0.10 0.20 0.30"]
    assert [item.is_final for item in answers] == [False, False, True]
    (segment,) = answers[-1].segments
    assert (segment.start, segment.end, segment.endpoint) == (0, 1.92, "end")
    assert sorted(components.calls) == sorted(
        ["vad", "ctc_streaming_encoder", "ctc_streaming_decoder"] * 3
    )
    assert not any(components.open.values())


async def test_a_call_of_the_search_carries_no_more_than_it_needs():
    async with streaming(endpoint_silence_ms=600, nbest=3) as (client, components):
        await client.say("11.1", ends=False)
        await client.send(audio(""), ends=True)
    calls = zip(components.calls, components.parameters, components.wanted, strict=True)
    calls = [call[1:] for call in calls if call[0] == "ctc_streaming_decoder"]
    (first, _), *others = calls
    assert (first["decoder"], first["nbest"]) == ("wfst", 3)
    assert [sent for sent, _ in others] == [{}, {"is_over": True}, {}, {"is_over": True}]
    assert ["am_scores" not in wanted for _, wanted in calls] == [True, True, False, True, False]


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_without_vad_the_encoder_tells_where_somebody_speaks(mode):
    async with streaming(mode=mode, vad=False) as (client, components):
        *_, final = await client.say(".1..2.")
    assert [segment.endpoint for segment in final.segments] == ["silence", "end"]
    assert [(item.start, item.end) for item in final.segments] == [(0.34, 1.58), (2.56, 3.5)]
    assert "vad" not in components.calls
    assert components.calls.count("ctc_streaming_encoder") == 6


@pytest.mark.parametrize("samples", [1_000, 10_240, 25_000, 10**6])
async def test_how_the_client_cuts_its_chunks_changes_nothing(samples):
    wave = audio("12..3....45.")[:-3_000]
    async with streaming(word_timestamps=True) as (client, components):
        for start in range(0, len(wave), samples):
            ends = start + samples >= len(wave)
            found = await client.send(wave[start : start + samples], ends=ends)
    assert found.text == "0.10 0.20 0.30 0.40 0.50"
    assert [segment.text for segment in found.segments] == ["0.10 0.20", "0.30", "0.40 0.50"]
    assert [segment.endpoint for segment in found.segments] == ["silence", "silence", "end"]
    assert [segment.index for segment in found.segments] == [0, 1, 2]
    # The step before the last utterance is heard with it, so that its words count from there.
    assert [word.start for word in found.words] == [0, 0.64, 2.56, 5.12, 5.76]
    assert components.calls.count("vad") == 12
    for model in ("ctc_streaming_encoder", "ctc_streaming_decoder"):
        # Of the pause the third step is not encoded, and the last one is in one call with 4; what
        # frees the stream behind its end is a call, too.
        assert components.calls.count(model) == 10


async def test_words_of_audio_that_an_encoder_keeps_back_have_the_times_of_that_audio():
    components = PlainComponents()
    components.behind_samples = 3_200
    async with streaming(components, decoder="transducer", word_timestamps=True) as (client, _):
        found = await client.send(audio("12..3....45."), ends=True)
    assert found.text == "0.10 0.20 0.30 0.40 0.50"
    # 0.2 s earlier than without, but not before their utterance.
    assert [word.start for word in found.words] == [0, 0.64, 2.56, 5.12, 5.56]


@pytest.mark.parametrize("rate", [16_000, 8_000])
async def test_chunks_of_16_bit_samples_are_heard_as_the_same_floats(rate):
    """They are cut to WAV_LENS too, and a stream may have both kinds."""
    pcm16 = np.round(audio("12..3.") * 32_768).astype(np.int16)
    floats = (pcm16 / 32_768).astype(np.float32)
    sample_rate = np.array([[rate]], np.int32)

    async def sent_as(*names):
        async with streaming(word_timestamps=True) as (client, _):
            for number, start in enumerate(range(0, len(pcm16), 7_000)):
                name = names[number % len(names)]
                valid = {"wav": floats, "pcm16": pcm16}[name][start : start + 7_000]
                padded = np.concatenate([valid, np.ones(500, valid.dtype)])[np.newaxis]
                lens = np.array([[len(valid)]], np.int32)
                changes = {"wav": None, name: padded, "wav_lens": lens, "sample_rate": sample_rate}
                answer = await client.send(valid, ends=start + 7_000 >= len(pcm16), **changes)
            return answer

    expected = await sent_as("wav")
    assert expected.text
    for names in (["pcm16"], ["wav", "pcm16"]):
        found = await sent_as(*names)
        assert (found.text, found.words, found.segments, found.duration) == (
            *(expected.text, expected.words, expected.segments),
            expected.duration,
        )


async def test_chunks_calls_endpoints_and_ends_are_counted():
    async with streaming(mode="two_pass") as (client, _):
        await client.say("1..2.")
        client.is_new = False
        with pytest.raises(SessionError):
            await client.send(audio("1"))
        counted = client.recognizer.runtime.metrics.drain()
    assert counted[CHUNKS, ("two_pass", "ok")] == 5
    assert counted[CHUNKS, ("none", "invalid")] == 1
    assert counted[CALLS, ("two_pass", "ctc_streaming_encoder")] == 5
    assert counted[CALLS, ("two_pass", "moonshine_decoder")] == 2
    assert counted[AUDIO_SECONDS, ("two_pass",)] == pytest.approx(5 * 0.64)
    assert counted[ENDPOINTS, ("silence",)] == 1
    assert counted[STREAMS_ENDED, ("end",)] == 1


async def test_until_somebody_speaks_the_vad_alone_is_called():
    async with streaming() as (client, components):
        *_, answer, final = await client.say("...1..2...")
    # The step before speech with it, none twice, and the stream's end.
    encoded = [len(waveform) / STEP for waveform in components.waveforms("ctc_streaming_encoder")]
    assert encoded == [2, 1, 1, 1, 1, 1, 0]
    assert (answer.text, final.text) == ("0.20", "0.10 0.20")
    assert final.path == ("vad",)
    assert components.calls.count("vad") == 10
    assert ended_once(components)
    assert len(components.ended) == 2


async def test_silence_from_start_to_end_opens_nothing():
    async with streaming(mode="two_pass") as (client, components):
        await client.send(audio("." * 9))
        final = await client.send(audio("."), ends=True)
        counted = client.recognizer.runtime.metrics.drain()
    assert (final.text, final.segments, final.duration) == ("", (), 6.4)
    assert set(components.calls) == {"vad"}
    assert counted[ENDPOINTS, ("no_speech",)] == 1
    assert components.open == {}


@pytest.mark.parametrize("silent", [8, 9])
async def test_speech_after_a_silence_that_is_a_rules_has_the_streams_times(silent):
    async with streaming(mode="two_pass", decoder="ctc") as (client, components):
        final = await client.send(audio("." * silent + "1"), ends=True)
    (segment,) = final.segments
    start = 0.64 * silent - 0.3  # vad_pad_ms, also where the rule no_speech ends an utterance there
    assert (segment.start, segment.end) == pytest.approx((start, 0.64 * (silent + 1)))
    encoded = [len(waveform) for waveform in components.waveforms("ctc_encoder")]
    assert encoded == [round((segment.end - segment.start) * 16_000)]


@pytest.mark.parametrize("ends", [False, True])
async def test_speech_that_goes_on_behind_an_end_by_length_is_heard_once(ends):
    async with streaming(max_utterance_s=2.0, repeat_text=True) as (client, components):
        first = await client.send(audio(".12345"))
        answer = await client.send(audio("6"), ends=ends)
    encoded = np.concatenate(components.waveforms("ctc_streaming_encoder"))[::STEP].tolist()
    assert encoded == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert answer.text == "0.10 0.20 0.30 0.40 0.50 0.60"
    assert first.segments[0].endpoint == "length"


async def test_an_utterance_is_reported_as_final_once_and_the_stream_goes_on():
    async with streaming() as (client, _):
        answers = await client.say("1..2.")
    assert [len(item.segments) for item in answers] == [0, 0, 1, 0, 2]
    assert [item.stable for item in answers] == ["", "", "0.10", "", "0.10 0.20"]


async def test_partials_may_be_left_out():
    async with streaming(partials=False) as (client, _):
        answers = await client.say("1..2.")
    assert [item.text for item in answers] == ["", "", "0.10", "", "0.10 0.20"]


async def test_chunks_sent_without_waiting_are_heard_in_order():
    async with streaming() as (client, components):
        components.before = lambda model: asyncio.sleep(0.002 * (components.in_flight % 3))
        sent = [client.send(audio(item), ends=item == "9") for item in "123456789"]
        answers = await asyncio.gather(*sent)
    assert answers[-1].text == " ".join(f"0.{digit}0" for digit in range(1, 10))
    assert [len(item.text.split()) for item in answers] == list(range(1, 10))


async def test_an_empty_stream_and_one_of_a_single_short_chunk():
    async with serving() as (recognizer, components):
        empty = await Client(recognizer, components).send(audio(""), ends=True)
        short = await Client(recognizer, components).send(audio("4")[:1000], ends=True)
    assert (empty.text, short.text) == ("", "0.40")
    assert empty.is_final
    assert ended_once(components)


async def sent_by_steps(text, components=None, **settings):
    async with streaming(components, **settings) as (client, components):
        return await client.say(text), components


def lacking(*models) -> PlainComponents:
    components = PlainComponents()
    components.missing = set(models)
    return components


def called(components, part) -> bool:
    return any(part in model for model in components.calls)


@pytest.mark.parametrize(
    ("mode", "missing", "passes"),
    [
        ("auto", (), 2),
        ("auto", ("moonshine_decoder",), 2),
        ("auto", ("moonshine_encoder", "attention_encoder"), 1),
        ("two_pass", ("moonshine_encoder", "attention_encoder"), 2),
    ],
)
async def test_without_a_second_recogniser_a_stream_is_streaming_unless_it_asked_for_two_passes(
    mode, missing, passes
):
    answers, components = await sent_by_steps("12..3", lacking(*missing), mode=mode)
    # Who asked for both gets the errors of the second one from the server.
    assert [segment.passes for segment in answers[-1].segments] == [passes] * 2
    other = "attention" if missing == ("moonshine_decoder",) else "moonshine"
    assert called(components, other) == (passes == 2)
    assert (answers[0].rolling is None) == (passes == 1)
    assert answers[1].utterance.text == "0.10 0.20"


@pytest.mark.parametrize(
    ("settings", "missing", "hears"),
    [
        ({}, (), True),
        ({"language": "en"}, (), True),
        ({"language": "de"}, (), False),
        ({"languages": "de,zh"}, (), False),
        ({"languages": "de,en"}, (), True),
        ({"task": "translate"}, (), False),
        ({"language": "de", "first_pass_language": "de"}, (), True),
        ({"first_pass_language": "de"}, (), True),
        ({}, ("ctc_streaming_encoder",), False),
        # Something must hear it: without rolling passes, without the VAD.
        ({"language": "de", "rolling_pass_ms": 0}, (), True),
        ({"language": "de", "vad": False}, (), True),
        ({"language": "de", "decoder": "ctc"}, (), True),
    ],
)
@pytest.mark.parametrize("end", ["3", "."])
async def test_whisper_hears_alone_what_the_ctc_model_does_not_know(settings, missing, hears, end):
    sent = {"mode": "two_pass", "coverage": False, "adaptive": False, **settings}
    answers, components = await sent_by_steps("12345..." + end, lacking(*missing), **sent)
    assert called(components, "ctc_streaming") == hears
    assert ended_once(components)
    final = answers[-1].segments[0]
    assert final.passes == 2
    if not hears:
        assert answers[0].utterance.text == ""
        # The text of rolling passes, and nothing before the first one.
        assert answers[3].text.startswith("spoken")


@pytest.mark.parametrize("share", [0.95, 0.5])
async def test_rolling_passes_take_a_language_for_known_once_they_are_sure(share):
    components = lacking()
    components.language_spoken, components.language_share = "de", share
    sent = {"mode": "two_pass", "coverage": False, "adaptive": False, "prompt": "Conch."}
    answers, _ = await sent_by_steps("1234567893", components, **sent)
    passes = components.parameters_of("attention_decoder")
    assert len(passes) > 2 and {item["prompt"] for item in passes} == {"Conch."}
    *rolling, second = [item["language"] for item in passes]
    known = "de" if share > 0.9 else "auto"
    assert rolling == ["auto", *[known] * (len(rolling) - 1)]
    assert second == "auto"
    (segment,) = answers[-1].segments
    assert (segment.language, answers[-1].language) == ("de", "de")
    assert segment.language_probability == pytest.approx(share)


async def test_a_stream_of_the_ctc_model_is_in_its_language():
    answers, _ = await sent_by_steps("12...", mode="streaming")
    assert answers[-1].language == "en"


@pytest.mark.parametrize("end", ["", "1"])
async def test_a_stream_of_whisper_alone_ends_without_the_ctc_models(end, caplog):
    async with streaming(lacking("ctc_streaming_encoder"), mode="two_pass", coverage=False) as (
        client,
        components,
    ):
        await client.send(audio("1....."))
        await client.send(audio(end))
        final = await client.send(audio(""), ends=True)
    assert final.text.startswith("spoken 0.10")
    assert not called(components, "ctc_streaming")
    assert not [item for item in caplog.records if item.levelno > logging.INFO]


async def test_an_open_utterance_is_told_by_what_is_known_of_its_words():
    answers, _ = await sent_by_steps("123", mode="streaming")
    utterance = answers[1].utterance
    assert [text_of_words(part) for part in (utterance.firm, utterance.tentative)] == ["0.10", ""]
    assert (text_of_words(utterance.newest), utterance.heard_until) == ("0.20", 0)
    assert answers[2].utterance is None


async def test_an_utterance_that_ended_keeps_the_text_of_its_passes_until_its_second_one():
    """Rolling passes hear letters, the first pass levels: their text is one."""
    options = {"mode": "two_pass", "decoder": "attention", "word_timestamps": True}
    async with streaming(SpokenComponents(), clock=Clock(), **options) as (client, components):
        let_go = asyncio.Event()

        async def hold(model):
            is_second = model == "attention_encoder" and components.parameters[-1] != OPEN_WINDOW
            await (let_go.wait() if is_second else asyncio.sleep(0))

        components.before = hold
        steps = np.split(made("abcdefghij."), range(STEP, 4 * RATE + 3 * STEP, STEP))
        answers = []
        while not answers or not answers[-1].segments:
            answers.append(await client.send(steps[len(answers)]))
            for _ in range(20):
                await asyncio.sleep(0)
        let_go.set()
        final = await client.send(audio(""), ends=True)
    assert answers[-2].text == "a b c d e f g h i j 0.10"
    (segment,) = answers[-1].segments
    assert (segment.passes, segment.text) == (1, "a b c d e f g h i j 0.10")
    assert text_of_words(segment.words) == segment.text == answers[-1].text
    assert answers[-1].stable == "a b c d e f g"
    assert final.text == final.stable == "a b c d e f g h i j"
    told = [*answers, final]
    assert all(answer.text.startswith(answer.stable) for answer in told)


async def test_an_answer_tells_what_is_new_and_the_last_one_all():
    answers, _ = await sent_by_steps("12..3..4")
    assert [answer.text for answer in answers] == [
        "0.10",
        "0.10 0.20",
        "0.10 0.20",
        "0.10 0.20",  # which has ended
        "0.30",
        "0.30",
        "0.30",
        "0.10 0.20 0.30 0.40",
    ]
    ended = [[segment.text for segment in answer.segments] for answer in answers]
    assert ended == [[], [], [], ["0.10 0.20"], [], [], ["0.30"], ["0.10 0.20", "0.30", "0.40"]]
    assert answers[-1].stable == answers[-1].text


@pytest.mark.parametrize("asks", [{"repeat_text": True}, {"outputs": ("TRANSCRIPTS",)}])
@pytest.mark.parametrize(("history_s", "repeated"), [(0, 3), (600, 3), (4, 2), (2, 1)])
async def test_an_answer_repeats_what_was_said_a_while_ago_if_asked(asks, history_s, repeated):
    """By the option, or by the output TRANSCRIPTS of each chunk."""
    options = {key: asks[key] for key in asks if key == "repeat_text"}
    changes = {key: asks[key] for key in asks if key == "outputs"}
    async with streaming(history_s=history_s, **options) as (client, _):
        answers = [await client.send(audio(item), **changes) for item in "1..2..3.."]
        answers.append(await client.send(audio("."), ends=True, **changes))
    said = ["0.10", "0.20", "0.30"]
    assert answers[-2].text == answers[-2].stable == " ".join(said[-repeated:])
    assert answers[-1].text == answers[-1].stable == answers[-2].text
    assert [segment.index for segment in answers[-1].segments] == [0, 1, 2][-repeated:]


@pytest.mark.parametrize("history_s", [1, 600, 0])
async def test_what_ends_with_the_last_chunk_is_told_however_long_ago_it_was(history_s):
    async with streaming(history_s=history_s) as (client, _):
        await client.send(audio("1.."))
        await client.send(audio("..."))
        final = await client.send(audio("2..3......"), ends=True)
    assert [segment.index for segment in final.segments] == (
        [1, 2] if history_s == 1 else [0, 1, 2]
    )


async def test_what_its_second_pass_may_change_is_repeated_however_long_ago_it_was():
    options = {"mode": "two_pass", "rolling_pass_ms": 0, "history_s": 1}
    async with streaming(**options) as (client, components):
        let_go = components.hold("moonshine_encoder")
        answers = await client.say("1..2..3......", ends=False)
        let_go.set()
        answers.append(await client.send(audio(""), ends=True))
    assert answers[-2].text == "0.10 0.20 0.30"
    assert [answer.stable for answer in answers[:-1]] == [""] * 13
    assert answers[-1].text.startswith("spoken 0.10 0 spoken 0.20 0")


async def test_the_answers_of_a_long_stream_do_not_grow():
    minutes, waveform = 30, audio("12..")
    async with streaming(mode="two_pass", rolling_pass_ms=640) as (client, components):
        sizes = []
        for _ in range(round(minutes * 60 / 2.56)):
            answer = await client.send(waveform)
            sizes.append(len(answer.to_json()))
            for kept in (components.calls, components.inputs, components.parameters):
                kept.clear()
        final = await client.send(audio(""), ends=True)
    per_minute = round(60 / 2.56)
    assert max(sizes[10 * per_minute :]) < 1.1 * max(sizes[per_minute : 2 * per_minute])
    assert len(final.segments) == pytest.approx(600 / 2.56, abs=2)


TIMERS = (asyncio.TimerHandle, contextvars.Context)
"""What an event loop keeps of a hundred deadlines that are over."""


async def test_what_is_kept_of_a_stream_does_not_grow():
    """Words, texts and passes of eight minutes with a history of one."""
    options = {"mode": "two_pass", "word_timestamps": True, "history_s": 60}
    async with streaming(**options) as (client, components):
        kept = []
        for number in range(round(8 * 60 / 2.56)):
            await client.send(audio("12.."))
            for told in (components.calls, components.inputs, components.parameters):
                told.clear()
            components.wanted.clear()
            if number % 30 == 29:
                gc.collect()
                kept.append(sum(type(item) not in TIMERS for item in gc.get_objects()))
    # What tests before this one have left may go meanwhile.
    assert max(kept[3:]) - kept[2] < 100


async def test_without_endpoints_an_utterance_ends_by_its_length_alone():
    async with streaming(endpointing=False, max_utterance_s=10) as (client, _):
        answers = await client.say("1...2" + "3" * 8 + "45.." + "." * 99 + "6")
    ended = [segment for answer in answers[:-1] for segment in answer.segments]
    # At the first pause after three fifths of the length, or at the length in silence.
    assert [segment.endpoint for segment in ended] == ["length"]
    assert answers[-1].text.split() == ["0.10", "0.20", *["0.30"] * 8, "0.40", "0.50", "0.60"]


@pytest.mark.parametrize(
    ("chunks", "is_ahead"),
    [
        ([(2.0, 1.0)] * 30, [True] * 28),  # a file at twice the speed
        ([(3.2, 0.0), *[(0.64, 0.64)] * 60], [False] * 25),  # what a microphone had kept
        ([*[(0.64, 1.64)] * 10, *[(0.64, 0.0)] * 15], [False] * 15),  # it was held up
        ([(0.64, 0.64)] * 30, [False] * 30),
    ],
)
def test_a_stream_is_ahead_if_it_is_faster_than_speech_of_late_and_in_all(chunks, is_ahead):
    now, num_samples, found = 0.0, 0, []
    speed = SendingSpeed(now)
    for audio_s, wall_s in chunks:
        now += wall_s
        speed.mark(num_samples, now)
        num_samples += round(audio_s * 16_000)
        found.append(speed.is_ahead(num_samples, now))
    assert found[-len(is_ahead) :] == is_ahead
