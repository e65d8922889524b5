"""Speaking a text by components that are plain functions: order, bounds and cancellation."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from audio_files import audio_file
from plain_components import HostTensor

from conch.bls.config import BlsConfig, own_components
from conch.bls.metrics import REQUESTS
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Message
from conch.families import voices
from conch.synthesis import Synthesis, SynthesisConfig
from conch.synthesis.speaking import Growth, Speaking, VocoderChunk, word_times
from conch.wire.errors import AudioError, OptionError, RequestCancelledError, TextError
from conch.wire.known_speakers import option_of
from conch.wire.synthesis import Spoken, SpokenWord, SynthesisOptions

VOICE = next(iter(voices()))
FRAMES_OF_LETTER = 10


class Components:
    """A voice whose sound is the number of each frame; words in capitals have none."""

    def __init__(self, tokens_of_letter: int = 1) -> None:
        self.calls: list[str] = []
        self.texts: list[str] = []
        self.acoustic_inputs: list[dict[str, Any]] = []
        self.tokens_of_letter = tokens_of_letter
        self.is_gone = False
        self.lacking: set[str] = set()

    async def call(self, call):
        if self.is_gone:
            raise RequestCancelledError("gone")
        self.calls.append(call.model)
        made = getattr(self, call.model)(call.inputs)
        return {name: HostTensor(array) for name, array in made.items()}

    def text_frontend(self, inputs):
        text = inputs["text"].item().decode()
        self.texts.append(text)
        letters = 0 if text.isupper() else len(text) * self.tokens_of_letter
        return {
            "phonemes": np.array([text.encode()], np.object_),
            "tokens": np.arange(letters, dtype=np.int32),
            "spans": np.array([[0, len(text), 0, letters]], np.int32)[: bool(letters)],
        }

    def acoustic(self, inputs):
        self.acoustic_inputs.append(inputs)
        tokens = len(inputs["tokens"])
        frames = np.arange(tokens * FRAMES_OF_LETTER, dtype=np.float32)
        durations = np.full(tokens, FRAMES_OF_LETTER, np.int32)
        return {"latents": np.stack([frames, frames], axis=1), "durations": durations}

    def vocoder(self, inputs):
        before, after, first = inputs["context"]
        latents = inputs["latents"]
        assert latents[0, 0] >= 0 and first + before >= 0
        spoken = latents[before : len(latents) - after, 0]
        return {"waveform": np.repeat(spoken, voices()[VOICE].frame_samples)}

    kokoro_acoustic, kokoro_vocoder = acoustic, vocoder

    def voice_style(self, inputs):
        is_voice = "embedding" in inputs and inputs["embedding"].shape == (3,)
        assert is_voice or len(inputs["waveform"]) == 4 * 16_000
        style = b"am_adam:0.4,bm_lewis:0.6" if is_voice else b"af_sky:1.0"
        return {
            "style": np.array([style], np.object_),
            "pitch": np.full(1, 1.1, np.float32),
            "embedding": np.array([0.6, 0.8], np.float32),
        }

    def speaker_embedding(self, inputs):
        pieces = len(inputs["starts"])
        assert inputs["ends"].max() <= len(inputs["waveform"])
        return {"embeddings": np.repeat(np.array([[0, 2]], np.float32), pieces, axis=0)}

    async def is_loaded(self, model):
        return model not in self.lacking

    def give_up(self, model):
        pass


def service(components: Components, **limits: Any) -> Synthesis:
    config = SynthesisConfig(**limits)
    return Synthesis(config, Runtime(config, own_components(), components))


def message(text: object, *, is_decoupled: bool = True, **parameters) -> Message:
    tensors = {} if text is None else {"TEXT": np.array([[text]], np.object_)}
    outputs = ("WAVEFORM", "AUDIO", "SAMPLE_RATE", "RESULT")
    return Message(
        model="synthesis",
        read_inputs=lambda: tensors,
        outputs=outputs,
        parameters=parameters,
        is_decoupled=is_decoupled,
    )


async def answers(made: Synthesis, components: Components, asked: Message) -> list:
    record = AccessRecord("id", "synthesis")
    async with aclosing(made.run(made.parse(asked), components, record)) as parts:
        return [answer async for answer in parts]


def ask(text: object, components: Components | None = None, **parameters) -> list:
    components = components or Components()
    return asyncio.run(answers(service(components), components, message(text, **parameters)))


def spoken_of(answer) -> Spoken:
    return Spoken.from_json(answer["RESULT"].item())


def expected(*letters: int) -> np.ndarray:
    frames = [np.arange(count * FRAMES_OF_LETTER) for count in letters]
    return np.repeat(np.concatenate(frames), voices()[VOICE].frame_samples)


def test_chunks_joined_are_the_audio_of_all_sentences_in_one() -> None:
    text = b"A sentence here. Another one is here! And the last."
    *chunks, end = ask(text, timestamps=True)
    samples = np.concatenate([item["WAVEFORM"].ravel() for item in chunks])
    np.testing.assert_array_equal(samples, expected(16, 20, 13))
    assert chunks[0]["WAVEFORM"].size == 16 * 300 and "WAVEFORM" not in end
    sentences = [item for chunk in chunks for item in spoken_of(chunk).sentences]
    assert [item.text for item in sentences] == [
        "A sentence here.",
        "Another one is here!",
        "And the last.",
    ]
    assert [item.start for item in sentences] == [0.0, 2.0, 4.5]
    assert sentences[1].words[0].start == 2.0
    last = spoken_of(end)
    assert last.duration == len(samples) / 24_000
    assert last.path == voices()[VOICE].components
    assert last.stages["text_frontend"].calls == 3

    (whole,) = ask(text, is_decoupled=False)
    np.testing.assert_array_equal(whole["WAVEFORM"].ravel(), samples)
    assert [item.text for item in spoken_of(whole).sentences] == [s.text for s in sentences]


def test_bytes_are_those_of_the_format_at_the_rate() -> None:
    pieces = [
        item["AUDIO"].item() for item in ask(b"Hello there.", format="wav") if "AUDIO" in item
    ]
    assert len(pieces) > 1 and pieces[0].startswith(b"RIFF")
    assert len(b"".join(pieces)) == 44 + 2 * 12 * FRAMES_OF_LETTER * 300
    (whole,) = ask(b"Hello there.", is_decoupled=False, sample_rate=12_000)
    assert whole["SAMPLE_RATE"].item() == 12_000
    assert whole["WAVEFORM"].shape == (1, 12 * FRAMES_OF_LETTER * 150)


def test_a_sentence_of_too_many_sounds_is_read_in_halves() -> None:
    components = Components(tokens_of_letter=30)
    ask(b"one two six ten", components)
    assert components.texts == ["one two six ten", "one two", "six ten"]


def test_only_a_word_of_far_too_many_sounds_is_cut() -> None:
    components = Components(tokens_of_letter=100)
    ask(b"abcdefghijklmnop bcdefghijkl", components)
    assert components.texts[1:] == ["abcdefghijklmnop", "abcdefgh", "ijklmnop", "bcdefghijkl"]


def test_what_has_no_sound_is_left_out_with_a_warning() -> None:
    *_, end = ask(b"Hello. SILENT. There.")
    assert spoken_of(end).warnings == ("nothing is spoken of SILENT.",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "TEXT takes one text; sent: none"),
        (b"", "TEXT takes a text with words"),
        (b" \n ", "TEXT takes a text with words"),
        (b"\xff", "TEXT takes UTF-8"),
        (b"x" * 100_001, "TEXT takes at most 100000 characters"),
        (b"SILENT", "the text has no word that the voice hibari can speak; sent: SILENT"),
    ],
)
def test_a_text_that_cannot_be_spoken_is_an_error_of_the_request(text, said) -> None:
    with pytest.raises(TextError, match=said):
        ask(text)


def test_a_wrong_option_calls_nothing() -> None:
    components = Components()
    with pytest.raises(OptionError):
        ask(b"hi", components, speed=5.0)
    assert not components.calls


def test_names_of_others_mean_the_default_voice_where_theirs_is_missing() -> None:
    components = Components()
    *_, end = ask(b"Hi.", components, voice="nova")
    assert spoken_of(end).voice == "nova" and components.calls[1] == "kokoro_acoustic"
    components.lacking.add("kokoro_acoustic")
    *_, end = ask(b"Hi.", components, voice="nova")
    assert spoken_of(end).voice == VOICE and components.calls[-1] == "vocoder"


def wav(seconds: float) -> bytes:
    tone = np.sin(np.arange(round(16_000 * seconds)) / 20).astype(np.float32)
    return audio_file(tone, 16_000)


def test_a_recording_is_a_voice_that_is_found_once() -> None:
    components = Components()
    made = service(components, references=True)
    recorded = option_of([{"name": "Ann", "audio": wav(4)}])
    known = option_of([{"name": "Ann", "embedding": np.ones(3, np.float32)}])
    voiced = []
    for reference in (recorded, known, recorded):
        request = message(b"Hello there.", reference=reference)
        *_, end = asyncio.run(answers(made, components, request))
        voiced.append((spoken_of(end).voice, spoken_of(end).similarity))
    # What is spoken is compared, not the mix.
    assert voiced == [("af_sky:1.0", 0.8), ("am_adam:0.4,bm_lewis:0.6", 0.8), ("af_sky:1.0", 0.8)]
    assert all(item["pitch"] == np.float32(1.1) for item in components.acoustic_inputs)
    *_, end = asyncio.run(answers(made, components, message(b"Hi.", reference=recorded)))
    assert spoken_of(end).similarity is None  # it is too short
    assert components.calls.count("voice_style") == 2
    assert components.calls.count("kokoro_acoustic") == 4
    with pytest.raises(AudioError, match=r"option 'reference': .*20 s"):
        request = message(b"Hi.", reference=option_of([{"name": "Ann", "audio": wav(21)}]))
        asyncio.run(answers(made, components, request))


def test_recordings_are_for_servers_that_allow_them() -> None:
    reference = option_of([{"name": "Ann", "embedding": np.ones(3, np.float32)}])
    with pytest.raises(OptionError, match="'reference' is not taken by this server"):
        ask(b"Hi.", reference=reference)
    for sent, said in (("nonsense", "'reference' takes a JSON list"), ("[]", "takes one entry")):
        with pytest.raises(OptionError, match=said):
            ask(b"Hi.", reference=sent)


async def test_no_more_than_one_sentence_is_prepared_ahead() -> None:
    tasks = asyncio.all_tasks()
    components = Components()
    runtime = Runtime(BlsConfig(), own_components(), components)
    calls = runtime.live_calls(components, "synthesis")
    options = SynthesisOptions()
    text = "This is it. " * 1000
    speaking = Speaking(
        text,
        options,
        voices()[VOICE],
        calls,
        Growth.of(voices()[VOICE], inf),
        0.0,
    )
    async with aclosing(speaking.pieces()) as pieces:
        async for _ in pieces:
            await asyncio.sleep(0)
            if components.calls.count("vocoder") == 20:
                break
    # A reader that stops takes no further sentence, and leaves no task.
    assert components.calls.count("acoustic") in (20, 21)
    assert asyncio.all_tasks() == tasks


async def test_a_client_that_goes_away_ends_the_making() -> None:
    components = Components()
    made = service(components)
    with pytest.raises(RequestCancelledError):
        record = AccessRecord("id", "synthesis")
        request = replace(message(b"This is it. " * 100))
        async for _ in made.run(made.parse(request), components, record):
            components.is_gone = True
    assert len(components.calls) < 8
    counted = made._runtime.metrics.drain()
    assert counted[REQUESTS, ("synthesis", "cancelled")] == 1


def test_a_word_lasts_as_long_as_its_sounds() -> None:
    text = "Oh, hello"
    spans = np.array([[0, 3, 1, 2], [4, 9, 4, 6]])
    durations = np.array([10, 4, 2, 2, 6, 8, 20])
    assert word_times(text, spans, durations, 0.0125) == (
        SpokenWord("Oh,", 0.125, 0.175),
        SpokenWord("hello", 0.225, 0.4),
    )
    assert word_times(text, np.zeros((0, 4), int), durations, 0.0125) == ()


HIBARI = voices()["hibari"]


@pytest.mark.parametrize("frames", [*range(1, 120), 500, 1201])
@pytest.mark.parametrize("first", [1, 4, 16])
def test_chunks_cover_every_frame_once_with_their_context(frames: int, first: int) -> None:
    before, after = 3, 5
    growth = Growth(first, 60, 3)
    chunks = list(growth.chunks(frames, before, after))
    assert [frame for item in chunks for frame in range(item.start, item.end)] == [*range(frames)]
    for item in chunks:
        wanted = {
            near
            for frame in range(item.start, item.end)
            for near in range(frame - before, frame + after + 1)
            if 0 <= near < frames
        }
        assert {*range(item.first, item.last)} == wanted
        assert item.end - item.start <= 90
    lengths = [item.end - item.start for item in chunks]
    assert lengths[0] <= max(first * 3 // 2, 1)
    assert growth.frames <= 60


def test_the_first_chunk_is_short_and_the_next_sentence_goes_on_growing() -> None:
    growth = Growth.of(HIBARI)
    assert next(growth.chunks(1000, 28, 29)) == VocoderChunk(0, 16, 0, 45)
    lengths = [item.end - item.start for item in Growth.of(HIBARI).chunks(1000, 0, 0)]
    assert lengths == [16, 48, 144, 240, 240, 312]
    growth = Growth.of(HIBARI)
    for _ in growth.chunks(64, 0, 0):
        pass
    assert [item.end - item.start for item in growth.chunks(300, 0, 0)] == [144, 156]
