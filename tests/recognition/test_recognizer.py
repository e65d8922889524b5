import asyncio

import numpy as np
import pytest
from mortal_components import MortalComponents
from plain_components import PlainComponents
from plain_recognizer import recognizer_on, speech

from conch.audio.segmentation import text_of_state
from conch.component import VAD_STATE_SIZE, bytes_array
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
)
from conch.wire.result import Transcript

RATE = 16_000


def recognize(components, request, **limits):
    recognizer = recognizer_on(components, **limits)
    return asyncio.run(recognizer.recognize(request, components))


def one(wav: np.ndarray, **parameters) -> RecognitionRequest:
    return RecognitionRequest(wav=wav[np.newaxis], parameters=parameters)


def test_segments_come_in_order_of_time_on_the_audios_clock():
    (transcript,) = recognize(PlainComponents(), one(speech(0.1, 0.2, 0.3)))
    assert transcript.text == "spoken 0.10 0 spoken 0.20 0 spoken 0.30 0"
    assert [round(segment.start) for segment in transcript.segments] == [3, 7, 11]
    assert transcript.duration == 15.0
    assert transcript.nbest[0].score == -3.0


@pytest.fixture
def components() -> PlainComponents:
    return PlainComponents()


def test_a_piece_begins_with_the_vads_memory_that_was_sent(components):
    state = np.arange(VAD_STATE_SIZE, dtype=np.float32)
    request = one(speech(0.1), vad_state=text_of_state(state))
    (transcript,) = recognize(components, request)
    assert transcript.text == "spoken 0.10 0"
    first = components.inputs[components.calls.index("vad")]
    assert np.array_equal(first["state"], state)


def test_a_piece_with_another_memory_is_refused():
    with pytest.raises(OptionError, match="'vad_state' takes base64 of 320 finite FP32 numbers"):
        recognize(PlainComponents(), one(speech(0.1), vad_state="AAAA"))


def test_one_memory_is_not_for_several_recordings():
    wav = np.stack([speech(0.1), speech(0.2)])
    state = text_of_state(np.zeros(VAD_STATE_SIZE, np.float32))
    with pytest.raises(OptionError, match="'vad_state' is for a piece of one recording; sent: 2"):
        recognize(PlainComponents(), RecognitionRequest(wav=wav, parameters={"vad_state": state}))


def test_all_segments_are_in_flight_at_once(components):
    components.meet("moonshine_encoder", 5)
    request = one(speech(0.1, 0.2, 0.3, 0.4, 0.5))
    (transcript,) = recognize(components, request, max_encoder_calls=10)
    assert components.most_in_flight == 5
    assert len(transcript.segments) == 5


@pytest.mark.virtual_time
async def test_recordings_have_their_turns_as_soon_as_a_component_is_replaced():
    components = MortalComponents(call_s=1.0)
    recognizer = recognizer_on(components, max_encoder_calls=8)
    request = one(speech(*[0.5] * 20), vad=False)
    requests = [asyncio.create_task(recognizer.recognize(request, components)) for _ in range(4)]
    await asyncio.sleep(1.5)
    components.kill("moonshine_encoder")  # with a call for each turn in its queue
    await components.replace("moonshine_encoder", found_s=1.7, load_s=0.3)
    back = asyncio.get_running_loop().time()
    await asyncio.gather(*requests)
    # With the turns that the dead process kept it took seven seconds.
    assert asyncio.get_running_loop().time() - back < 5.5


def test_no_more_segments_are_in_flight_than_the_limit(components):
    (transcript,) = recognize(components, one(speech(*[0.5] * 20)), max_segments_in_flight=3)
    assert components.most_in_flight <= 3
    assert len(transcript.segments) == 20


@pytest.mark.virtual_time
@pytest.mark.parametrize("cores", [2, 3])
async def test_the_first_segment_of_a_stream_shares_the_cores_with_no_more_than_fill_them(
    components, cores
):
    components.before = lambda model: asyncio.sleep(1)
    recognizer = recognizer_on(components, cores=cores)
    request = one(speech(*[0.5] * 20))
    encoded = [
        components.calls.count("moonshine_encoder")
        async for _ in recognizer.stream(request, components)
    ]
    first, *_, last = encoded
    took_s = asyncio.get_running_loop().time()
    assert (first, last) == (cores, 20)
    # Three calls of the VAD, ten pairs at the encoder and one call of the decoder.
    assert took_s < 3 + 10 + 1 + 2


def test_silence_calls_the_vad_alone(components):
    (transcript,) = recognize(components, one(np.zeros(5 * RATE, np.float32)))
    assert transcript.text == ""
    assert transcript.segments == ()
    assert components.calls == ["vad"]
    assert transcript.path == ("vad",)


def test_without_vad_everything_is_decoded_and_the_vad_not_called(components):
    (transcript,) = recognize(components, one(speech(0.1, 0.2), vad=False, max_segment_s=30.0))
    assert components.calls == ["moonshine_encoder", "moonshine_decoder"]
    assert transcript.segments[0].start == 0
    assert transcript.segments[0].end == transcript.duration


def test_long_audio_carries_the_vads_state_from_block_to_block(components):
    (transcript,) = recognize(components, one(speech(*[(0.3, 2.0)] * 30)))
    assert components.calls.count("vad") == 5
    assert len(transcript.segments) == 30


def test_the_rescorer_is_called_only_where_the_request_asks():
    plain, scored = PlainComponents(), PlainComponents()
    (without,) = recognize(plain, one(speech(0.1), nbest=3))
    rescore = {"rescore": True, "rescorer": "ngram", "lm_weight": 1.0, "word_bonus": 0.5}
    (with_lm,) = recognize(scored, one(speech(0.1), nbest=3, **rescore))
    assert "rescorer" not in plain.calls
    assert scored.calls.count("rescorer") == 1
    assert [item.text[-1] for item in without.nbest] == ["0", "1", "2"]
    assert [item.text[-1] for item in with_lm.nbest] == ["3", "2", "1"]  # the margin is 3 nats
    for item in with_lm.nbest:
        assert item.score == item.am_score + 1.0 * item.lm_score + 0.5 * item.num_words


UNWEIGHTED = {"attention_weight": 1.0, "word_bonus": 0.0}
NGRAM = {"rescore": True, "rescorer": "ngram", "lm_weight": 0.5, **UNWEIGHTED}


class InAGraph(PlainComponents):
    """Its CTC decoder has found two texts by the n-grams of a graph."""

    def ctc_decoder(self, inputs, parameters):
        return {
            "hypotheses": bytes_array(["a", "b"]),
            "scores": np.array([-30, -31], np.float32),
            "am_scores": np.array([-10, -12], np.float32),
            "lm_scores": np.array([-30, -28.5], np.float32),
            "num_words": np.ones(2, np.int32),
            "words": bytes_array(["a", "b"]),
            "word_starts": np.zeros(2, np.float32),
            "word_ends": np.ones(2, np.float32),
            "word_confidences": np.ones(2, np.float32),
            "lattice": bytes_array([f"0 1,1,{parameters.get('lattice')}"]),
        }


def test_a_lattice_is_asked_for_and_told_with_its_segment():
    components = InAGraph()
    request = one(speech(0.1), decoder="wfst", lattice=True, **NGRAM)
    (transcript,) = recognize(components, request)
    assert [segment.lattice for segment in transcript.segments] == ["0 1,1,True"]
    assert Transcript.from_json(transcript.to_json()) == transcript
    (call,) = [place for place, name in enumerate(components.calls) if name == "ctc_decoder"]
    assert "lattice" in components.wanted[call]


@pytest.mark.parametrize(
    ("options", "scores"),
    [
        ({}, {"a": -30, "b": -31}),
        ({"attention_rescore": True, **UNWEIGHTED}, {"a": -30 + 0, "b": -31 + 1}),
        (NGRAM, {"a": -10 - 0.5 * 20, "b": -12 - 0.5 * 10}),
        ({**NGRAM, "attention_rescore": True}, {"a": -20 + 0, "b": -17 + 1}),
    ],
)
def test_a_rescorer_takes_the_place_of_a_graphs_ngrams(options, scores):
    (transcript,) = recognize(InAGraph(), one(speech(0.1), decoder="wfst", nbest=2, **options))
    assert {item.text: item.score for item in transcript.nbest} == scores


def test_rescoring_asks_the_decoder_for_all_that_the_beam_holds(components):
    recognize(components, one(speech(0.1), beam_size=7, rescore=True))
    call = components.calls.index("moonshine_decoder")
    assert components.parameters[call] == {
        "beam_size": 7,
        "nbest": 7,
        "language": "auto",
        "align": False,
    }
    assert components.wanted[call] == ("hypotheses", "scores", "language", "language_probability")


def test_words_are_those_of_the_best_text_on_the_audios_clock():
    request = one(speech(0.1), word_timestamps=True, coverage=False)
    (transcript,) = recognize(PlainComponents(), request)
    assert [word.text for word in transcript.words] == ["spoken", "0.10", "0"]
    assert transcript.words[0].start == transcript.segments[0].start
    assert transcript.words[-1].end == pytest.approx(transcript.segments[0].end, abs=0.02)


def test_words_begin_and_end_with_the_speech_that_the_vad_heard():
    (transcript,) = recognize(PlainComponents(), one(speech(0.1), word_timestamps=True))
    assert [word.text for word in transcript.words] == ["spoken", "0.10", "0"]
    first, last = 3 * RATE // 512, -(-4 * RATE // 512)  # frames with speech in them
    assert transcript.words[0].start == pytest.approx(first * 0.032 - 0.1)
    assert transcript.words[-1].end == pytest.approx(last * 0.032 + 0.1)


def test_rows_are_answered_row_by_row():
    wav = np.stack([speech(0.1, 0.2), np.pad(speech(0.3), (0, 4 * RATE))])
    lens = np.array([[wav.shape[1]], [len(speech(0.3))]], np.int32)
    first, second = recognize(PlainComponents(), RecognitionRequest(wav=wav, wav_lens=lens))
    assert first.text == "spoken 0.10 0 spoken 0.20 0"
    assert second.text == "spoken 0.30 0"
    assert (first.duration, second.duration) == (11.0, 7.0)
    assert first.stages["moonshine_encoder"].calls == 2
    assert second.stages["moonshine_encoder"].calls == 1


def test_a_deadline_ends_the_request_at_once_and_no_call_follows(components):
    components.hold("moonshine_encoder")
    with pytest.raises(DeadlineError, match="deadline_ms of 100 ran out in moonshine_encoder"):
        recognize(components, one(speech(0.1), deadline_ms=100))
    assert components.calls == ["vad", "moonshine_encoder"]


def test_what_is_left_of_the_deadline_goes_with_every_call(components):
    recognize(components, one(speech(0.1), deadline_ms=60_000))
    assert len(components.timeouts_s) == 3
    assert all(0 < timeout <= 60 for timeout in components.timeouts_s)
    assert components.timeouts_s == sorted(components.timeouts_s, reverse=True)


def test_one_failing_segment_fails_the_request_and_stops_the_others(components):
    components.failing = "moonshine_decoder"
    with pytest.raises(ComponentError, match="moonshine_decoder: out of order"):
        recognize(components, one(speech(0.1, 0.2, 0.3)))
    assert components.in_flight == 0


async def test_a_request_above_the_limit_is_refused_and_the_others_go_on(components):
    recognizer = recognizer_on(PlainComponents(), max_requests_in_flight=2)
    requests = [recognizer.recognize(one(speech(0.1)), components) for _ in range(3)]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    first, second, third = answers
    later = await recognizer.recognize(one(speech(0.1)), components)
    assert isinstance(third, OverloadedError)
    assert "max_requests_in_flight" in str(third)
    assert first[0].text == second[0].text == later[0].text == "spoken 0.10 0"


ONE_OF = "send one of WAV (samples), PCM16 (16-bit samples) and AUDIO (an encoded file); sent:"


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        (RecognitionRequest(), AudioError, f"{ONE_OF} none"),
        (
            RecognitionRequest(
                wav=np.zeros((1, 1), np.float32), audio=np.array([[b"x"]], dtype=object)
            ),
            AudioError,
            f"{ONE_OF} WAV and AUDIO",
        ),
        (
            RecognitionRequest(wav=np.zeros((1, 1), np.float32), pcm16=np.zeros((1, 1), np.int16)),
            AudioError,
            f"{ONE_OF} WAV and PCM16",
        ),
        (
            RecognitionRequest(
                audio=np.array([[b"x"]], dtype=object), sample_rate=np.array([[8000]], np.int32)
            ),
            AudioError,
            "WAV_LENS and SAMPLE_RATE go with WAV and PCM16; AUDIO has its own",
        ),
        (
            RecognitionRequest(
                wav=np.zeros((1, 5), np.float32), wav_lens=np.array([[6]], np.int32)
            ),
            AudioError,
            "WAV_LENS takes 1 to the samples in WAV (5); sent: 6",
        ),
        (
            RecognitionRequest(
                wav=np.zeros((1, 5), np.float32), wav_lens=np.array([[0]], np.int32)
            ),
            AudioError,
            "WAV_LENS takes 1 to the samples in WAV (5); sent: 0",
        ),
        (
            RecognitionRequest(
                pcm16=np.zeros((1, 5), np.int16), wav_lens=np.array([[6]], np.int32)
            ),
            AudioError,
            "WAV_LENS takes 1 to the samples in PCM16 (5); sent: 6",
        ),
        (
            RecognitionRequest(pcm16=np.zeros((1, 0), np.int16)),
            AudioError,
            "PCM16 is empty: send at least one sample",
        ),
        (one(speech(0.1), colour="red"), OptionError, "unknown option 'colour'"),
        (
            RecognitionRequest(wav=speech(0.1)[np.newaxis], starts=True),
            InvalidRequestError,
            "a chunk of a stream goes to the model speech, with a sequence id",
        ),
    ],
)
def test_a_bad_request_makes_no_call(components, request_, kind, message):
    with pytest.raises(kind) as error:
        recognize(components, request_)
    assert str(error.value).startswith(message)
    assert components.calls == []


def test_an_error_in_a_batch_names_its_row():
    wav = np.stack([speech(0.1), speech(0.2)])
    request = RecognitionRequest(wav=wav, wav_lens=np.array([[100], [-5]], np.int32))
    with pytest.raises(AudioError, match="row 1 of 2: WAV_LENS takes 1 to"):
        recognize(PlainComponents(), request)


async def test_a_stream_yields_each_segment_before_the_next_is_known(components):
    first_is_out = asyncio.Event()

    async def hold_the_second(model):
        if components.calls.count("moonshine_encoder") > 1:
            await asyncio.wait_for(first_is_out.wait(), 10)

    components.before = hold_the_second
    recognizer = recognizer_on(PlainComponents(), max_segments_in_flight=1)
    found = []
    async for transcript in recognizer.stream(one(speech(0.1, 0.2)), components):
        found.append(transcript.text)
        first_is_out.set()
    assert found == ["spoken 0.10 0", "spoken 0.20 0", ""]


async def test_a_stream_over_its_deadline_breaks_off_after_what_was_known(components):
    async def hang(model):
        await asyncio.sleep(3600 if components.calls.count("moonshine_encoder") > 1 else 0)

    components.before = hang
    recognizer = recognizer_on(PlainComponents(), max_segments_in_flight=1)
    found = []
    with pytest.raises(DeadlineError):
        request = one(speech(0.1, 0.2), deadline_ms=300)
        async for transcript in recognizer.stream(request, components):
            found.append(transcript.text)
    assert found == ["spoken 0.10 0"]


async def test_a_stream_yields_a_segment_before_the_silence_behind_it_is_read(components):
    first_is_out = asyncio.Event()

    async def hold_the_silence(model):
        if components.calls.count("vad") > 2:
            await asyncio.wait_for(first_is_out.wait(), 10)

    components.before = hold_the_silence
    recognizer = recognizer_on(PlainComponents())
    found = []
    async for transcript in recognizer.stream(one(speech(0.1, pause=100)[97 * RATE :]), components):
        found.append(transcript.text)
        first_is_out.set()
    assert found == ["spoken 0.10 0", ""]
    assert components.calls.count("vad") == 4


def test_the_ctc_decoder_takes_a_path_of_its_own(components):
    (transcript,) = recognize(
        components, one(speech(0.1, 0.2), decoder="ctc", word_timestamps=True)
    )
    assert transcript.path == ("vad", "ctc_encoder", "ctc_decoder")
    assert transcript.text == "heard 0.10 heard 0.20"
    assert [word.text for word in transcript.words] == ["heard", "0.10", "heard", "0.20"]
    assert [round(word.start) for word in transcript.words] == [3, 4, 7, 8]


@pytest.mark.parametrize("rate", [None, np.full((2, 1), 8_000, np.int32)])
def test_16_bit_samples_are_heard_as_the_same_floats(rate):
    """Level and length of the rows show in the texts and the durations."""
    pcm16 = np.round(np.stack([speech(0.1, 0.2), speech(0.4, 0.3)]) * 32_768).astype(np.int16)
    lens = np.array([[pcm16.shape[1]], [5 * RATE]], np.int32)
    sent = {"wav_lens": lens, "sample_rate": rate}
    heard = recognize(PlainComponents(), RecognitionRequest(pcm16=pcm16, **sent))
    floats = (pcm16 / 32_768).astype(np.float32)
    expected = recognize(PlainComponents(), RecognitionRequest(wav=floats, **sent))
    assert [item.text for item in heard] == [item.text for item in expected]
    assert [item.segments for item in heard] == [item.segments for item in expected]
    assert [item.duration for item in heard] == [item.duration for item in expected]
    if rate is None:
        assert [item.text for item in heard] == ["spoken 0.10 0 spoken 0.20 0", "spoken 0.40 0"]


@pytest.mark.parametrize("name", ["wav", "pcm16", "audio"])
def test_a_request_without_a_row_is_refused(name):
    kinds = {"wav": np.float32, "pcm16": np.int16, "audio": object}
    empty = RecognitionRequest(**{name: np.zeros((0, 1), kinds[name])})
    with pytest.raises(AudioError, match=f"^{name.upper()} takes at least one row"):
        recognize(PlainComponents(), empty)


def test_a_chunk_without_a_row_is_refused():
    empty = RecognitionRequest(
        wav=np.zeros((0, 5), np.float32),
        sample_rate=np.zeros((0, 1), np.int32),
        stream_id=7,
        starts=True,
    )
    with pytest.raises(AudioError, match=r"one row; sent: 0$"):
        recognize(PlainComponents(), empty)
