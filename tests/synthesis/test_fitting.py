"""Fitting by components that are plain functions: a voice is an angle, and so is a person."""

import asyncio
import json
import stat
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audio_files import audio_file
from plain_components import HostTensor
from transcripts import transcript

from conch import fitted_voices
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Message
from conch.families import replace_voices, traits
from conch.fitted_voices import FittedVoice, own_voices
from conch.synthesis import Fitting, FittingConfig
from conch.synthesis.trial import SENTENCES
from conch.wire.errors import AudioError, ComponentError, OptionError
from conch.wire.result import Hypothesis

PERSON, MIX = 2.0, 0.5
"""Angles."""
SIZE = 32
"""Numbers of a sound; the first is the angle."""
STEP_S = 2.5
"""What a step says that it took."""


def sounding(angle: float, frames: int, length: int = 600) -> np.ndarray:
    """Return frames that are as long positive as the angle is large; all are equally loud."""
    positive = round(length * float(angle) / np.pi)
    frame = np.where(np.arange(length) < positive, np.float32(0.3), np.float32(-0.3))
    return np.tile(frame, frames)


def embedding_of(waveform: np.ndarray) -> np.ndarray:
    angle = np.pi * np.mean(waveform > 0)
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


class Components:
    """A sound is an angle, which every frame says."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.acoustic_inputs: list[dict[str, Any]] = []
        self.failing = ""
        self.longest = 0
        self.said = ""

    async def call(self, call):
        await asyncio.sleep(0)
        self.calls.append(call.model)
        self.longest = max(self.longest, len(call.inputs.get("waveform", ())))
        if call.model == self.failing:
            raise ComponentError(f"{call.model}: it fails")
        made = getattr(self, call.model)(call.inputs)
        return {name: HostTensor(array) for name, array in made.items()}

    def vad(self, inputs):
        frames = -(-len(inputs["waveform"]) // 512)
        loud = np.abs(inputs["waveform"]).max() > 0
        return {"speech_probs": np.full(frames, float(loud), np.float32)}

    def speaker_embedding(self, inputs):
        spans = zip(inputs["starts"], inputs["ends"], strict=True)
        sounds = [embedding_of(inputs["waveform"][start:end]) for start, end in spans]
        return {"embeddings": np.stack(sounds)}

    def voice_style(self, inputs):
        return {
            "style": np.array([b"af_sky:1.00"], np.object_),
            "pitch": np.full(1, 1.1, np.float32),
            "timbre": np.full(SIZE, MIX, np.float32),
            "deviation": np.full(SIZE, 0.5, np.float32),
        }

    def text_frontend(self, inputs):
        text = inputs["text"].item().decode()
        return {
            "phonemes": np.array([text.encode()], np.object_),
            "tokens": np.arange(len(text), dtype=np.int32),
            "spans": np.array([[0, len(text), 0, len(text)]], np.int32),
        }

    def kokoro_acoustic(self, inputs):
        self.acoustic_inputs.append(inputs)
        timbre = inputs.get("timbre", np.full(SIZE, MIX, np.float32))
        tokens = len(inputs["tokens"])
        latents = np.full((3 * tokens, 1), timbre[0], np.float32)
        return {"latents": latents, "durations": np.full(tokens, 3, np.int32)}

    def kokoro_vocoder(self, inputs):
        before, after, _ = inputs["context"]
        latents = inputs["latents"]
        return {"waveform": sounding(latents[0, 0], len(latents) - before - after)}

    def kokoro_gradient(self, inputs):
        target = np.arctan2(inputs["target"][1], inputs["target"][0])
        assert 1 <= len(inputs["latents"]) <= 60
        gradient = np.zeros(SIZE, np.float32)
        gradient[0] = -np.sin(inputs["timbre"][0] - target)
        return {"gradient": gradient, "seconds": np.full(1, STEP_S, np.float32)}

    def speech(self, inputs):
        made = replace(transcript(), nbest=(Hypothesis(self.said, -1.0, -1.0),))
        return {"RESULT": np.array([made.to_json().encode()], np.object_)}

    async def is_loaded(self, model):
        return model != "speech" or bool(self.said)

    def give_up(self, model):
        pass


def person(angle: float = PERSON, seconds: float = 8.0, rate: int = 16_000) -> bytes:
    return audio_file(sounding(angle, round(50 * seconds), rate // 50), rate)


FILES = tuple((f"{number}.wav", person()) for number in range(4))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("conch.synthesis.fitting.WAIT_S", 0.01)
    monkeypatch.setenv(fitted_voices.VARIABLE, "1")
    yield tmp_path / "conch" / "voices"
    replace_voices(())


class Server:
    """A server that fits voices, until the block ends."""

    def __init__(self) -> None:
        self.components = Components()
        config = FittingConfig()
        self.fitting = Fitting(config, Runtime(config, traits(), self.components))

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.fitting.close(1)
        if self.fitting._working:
            with pytest.raises(asyncio.CancelledError):
                await self.fitting._working

    async def ask(self, action: str, name: str = "", files=(), consent: bytes = b"", **options):
        tensors = {"FILE_NAME": np.array([[title.encode() for title, _ in files]], np.object_)}
        if files:
            tensors["AUDIO"] = np.array([[data for _, data in files]], np.object_)
        if consent:
            tensors["CONSENT"] = np.array([[consent]], np.object_)
        named = {"name": name} if name else {}
        asked = Message(
            model="fitting",
            read_inputs=lambda: tensors,
            outputs=("RESULT",),
            parameters={"action": action, **named, **options},
        )
        request = self.fitting.parse(asked)
        record = AccessRecord("id", "fitting")
        async with aclosing(self.fitting.run(request, self.components, record)) as answers:
            (answer,) = [item async for item in answers]
        return json.loads(answer["RESULT"].item())

    async def fit(self, name: str, steps: int) -> FittedVoice:
        """Begin a voice, and return it after so many steps."""
        await self.ask("start", name, FILES)
        return await self.until_steps(name, steps)

    async def voice(self, name: str) -> FittedVoice:
        return FittedVoice.from_json(json.dumps(await self.ask("get", name)))

    async def until_steps(self, name: str, steps: int) -> FittedVoice:
        while (voice := await self.voice(name)).steps < steps and voice.is_in_work:
            await asyncio.sleep(0.01)
        return voice

    async def until_over(self, name: str) -> FittedVoice:
        while (voice := await self.voice(name)).is_in_work:
            await asyncio.sleep(0.01)
        return voice


@pytest.fixture
async def server(home: Path):
    async with Server() as server:
        yield server


async def test_a_voice_comes_near_to_a_person_and_is_kept(server, home: Path) -> None:
    begun = await server.ask("start", "Ann", FILES)
    assert (begun["object"], begun["id"], begun["status"]) == ("audio.voice", "Ann", "queued")
    assert begun["mix"] == "af_sky:1.00" and begun["seconds_left"] == 600
    await server.until_steps("Ann", 60)
    await server.ask("stop", "Ann")
    voice = await server.until_over("Ann")
    (listed,) = (await server.ask("list"))["fitted"]
    assert voice.status == "ready" and voice.error == "" and voice.seconds_left == 0
    assert listed["similarity"] == voice.similarity
    steps, similarities = zip(*voice.curve, strict=True)
    assert steps[:4] == (0, 20, 40, 60) and voice.start_similarity == similarities[0]
    assert similarities[0] == pytest.approx(np.cos(PERSON - MIX), abs=0.01)
    assert similarities[3] > 0.97 and list(similarities[:4]) == sorted(similarities[:4])
    assert voice.wer is None  # nobody recognises
    stored = fitted_voices.stored("Ann")
    assert stored and stored.work is None  # no voice print is left
    assert stat.S_IMODE(stored.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path.name for path in home.glob("Ann*")] == ["Ann.json"]
    # The pitch is that of the person, the sound what was fitted.
    assert all(item["pitch"] == np.float32(1.1) for item in server.components.acoustic_inputs)
    assert len({item["timbre"][0] for item in server.components.acoustic_inputs[8:]}) >= 4


async def test_time_in_which_others_have_the_cores_does_not_count(server, monkeypatch) -> None:
    still = SimpleNamespace(monotonic=lambda: 0.0)  # trials take no time
    monkeypatch.setattr("conch.synthesis.fitting_job.time", still)
    await server.ask("start", "Ann", FILES, minutes=1)
    voice = await server.until_over("Ann")
    assert voice.status == "ready" and voice.seconds == 60 and voice.steps == 60 / STEP_S


async def test_what_it_says_is_recognised(server) -> None:
    server.components.said = SENTENCES[0]
    voice = await server.fit("Ann", 1)
    # Of three sentences one is right, and the others share a few words with it.
    assert voice.wer is not None and 50 < voice.wer < 80


async def test_the_work_goes_on_after_a_restart(home: Path) -> None:
    async with Server() as server:
        before = await server.fit("Ann", 30)
    assert before.status == "fitting"
    async with Server() as server:
        voice = await server.until_steps("Ann", before.steps + 30)
        assert voice.curve[: len(before.curve)] == before.curve
        assert voice.created_at == before.created_at and voice.seconds >= before.seconds
        await server.ask("stop", "Ann")
        voice = await server.until_over("Ann")
    assert voice.similarity and voice.similarity > 0.97


async def test_voices_wait_for_one_another_and_a_removed_one_ends(server, home: Path) -> None:
    for name in ("Ann", "Ben"):
        await server.ask("start", name, FILES)
    await server.until_steps("Ann", 5)
    assert (await server.voice("Ben")).status == "queued"
    await server.ask("remove", "Ann")
    await server.until_steps("Ben", 5)
    with pytest.raises(OptionError, match=r"takes a fitted voice \(Ben\); sent: 'Ann'"):
        await server.voice("Ann")
    assert [*home.glob("Ann*")] == []


async def test_another_server_with_the_folder_works_when_this_one_has_ended() -> None:
    async with Server() as server:
        await server.fit("Ann", 3)
        with pytest.raises(BlockingIOError):
            fitted_voices.lock()
    fitted_voices.lock().close()


async def test_a_component_that_fails_again_and_again_fails_one_voice(server) -> None:
    await server.fit("Ann", 3)
    server.components.failing = "kokoro_gradient"
    tried = server.components.calls.count("kokoro_gradient")
    voice = await server.until_over("Ann")
    assert (voice.status, voice.error) == ("failed", "kokoro_gradient: it fails")
    assert server.components.calls.count("kokoro_gradient") >= tried + 9
    assert fitted_voices.stored("Ann").work is None
    server.components.failing = ""
    await server.fit("Ben", 3)


async def test_a_gradient_that_is_not_finite_costs_one_step(server) -> None:
    gradient, broken = server.components.kokoro_gradient, [3]

    def now_and_then(inputs):
        broken[0] -= 1
        return (
            {"gradient": np.full(SIZE, np.nan, np.float32)} if not broken[0] else gradient(inputs)
        )

    server.components.kokoro_gradient = now_and_then
    voice = await server.fit("Ann", 61)
    assert voice.curve[3][1] > 0.97


SILENCE = audio_file(np.zeros(64_000, np.float32), 16_000)
TWO = audio_file(np.concatenate([sounding(angle, 200, 320) for angle in (0.2, 2.9)]), 16_000)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (FILES[:2], "takes 3 to 50 recordings; sent: 2"),
        (FILES * 13, "takes 3 to 50 recordings; sent: 52"),
        ((*FILES, ("quiet.wav", SILENCE)), r"quiet\.wav has 0\.0 s of speech"),
        ((*FILES, ("short.wav", person(seconds=1.0))), r"short\.wav has 1\.0 s of speech"),
        ((*FILES, ("text.wav", b"no audio")), r"text\.wav: "),
        ((*FILES, ("ben.wav", person(0.3))), r"ben\.wav sounds like somebody else"),
        ((*FILES, ("both.wav", TWO)), r"both\.wav has two voices"),
        (tuple((name, person(seconds=3)) for name, _ in FILES), r"15 s of speech in all.*12\.0 s"),
    ],
)
async def test_recordings_that_are_none_are_named(server, home: Path, files, said: str) -> None:
    with pytest.raises(AudioError, match=said):
        await server.ask("start", "Ann", files)
    assert [*home.glob("*.json")] == []


async def test_few_seconds_and_narrow_files_are_warned_of(server) -> None:
    files = (*FILES[:2], ("phone.wav", person(rate=8_000)))
    begun = await server.ask("start", "Ann", files)
    assert begun["warnings"][-1].startswith("24 s of speech are few")
    narrow = [text for text in begun["warnings"] if "above 4 kHz" in text]
    assert [text.partition(": ")[0] for text in narrow] == ["phone.wav"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"action": "make"}, "'action' takes start, get, list, stop, remove; sent: 'make'"),
        ({"name": "a,b"}, "'name' takes 1 to 60 letters.*; sent: 'a,b'"),
        ({"name": "../x"}, "'name' takes 1 to 60 letters"),
        ({"name": "af_sky"}, "takes a new name; 'af_sky' is a voice already"),
        ({"name": "alloy"}, "takes a new name; 'alloy' is a voice already"),
        ({"minutes": 0}, "'minutes' takes a whole number from 1 to 120; sent: 0"),
        ({"minutes": True}, "'minutes' takes a whole number"),
        ({"speed": 2}, "no option 'speed': there are action, name, minutes"),
        ({"action": "get", "name": "Eve"}, r"takes a fitted voice \(there is none\)"),
    ],
)
async def test_wrong_options_are_named(server, options, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        await server.ask(**{"action": "start", "name": "Ann", "files": FILES, **options})


async def test_a_taken_name_is_refused(server) -> None:
    await server.ask("start", "Ann", FILES)
    with pytest.raises(OptionError, match="'Ann' is a voice already"):
        await server.ask("start", "Ann", FILES)


async def test_only_a_server_that_takes_recordings_fits_and_lists(monkeypatch) -> None:
    monkeypatch.delenv(fitted_voices.VARIABLE)
    async with Server() as server:
        for action in ("start", "list"):
            with pytest.raises(OptionError, match="--voices-from-recordings"):
                await server.ask(action, "Ann", FILES)


@pytest.fixture
def consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fitted_voices.CONSENT_VARIABLE, "I, Ann, lend my voice to this machine.")


async def test_a_spoken_consent_is_demanded(consent, server) -> None:
    server.components.said = "Something else."
    assert (await server.ask("list"))["consent"].startswith("I, Ann")
    asks = r"option 'consent' takes a recording of the sentence .I, Ann"
    with pytest.raises(OptionError, match=asks):
        await server.ask("start", "Ann", FILES)
    with pytest.raises(OptionError, match=r'heard: "Something else\."'):
        await server.ask("start", "Ann", FILES, consent=person())
    server.components.said = "I Anne lend my voice to this machine"
    with pytest.raises(OptionError, match="it sounds like somebody else"):
        await server.ask("start", "Ann", FILES, consent=person(0.3))
    await server.ask("start", "Ann", FILES, consent=person())
    async with Server() as deaf:
        with pytest.raises(OptionError, match="recognises no speech"):
            await deaf.ask("start", "Ben", FILES, consent=person())


async def test_a_fitted_voice_is_one_of_the_server(server) -> None:
    await server.fit("Ann", 1)
    (added,) = json.loads(*own_voices())
    await server.ask("remove", "Ann")
    assert (added["name"], added["synthesizer"], added["language"]) == ("Ann", "kokoro", "en-US")
    assert added["is_fitted"] is True
    assert own_voices() == ()


async def test_a_component_that_is_away_for_a_while_costs_nothing(server) -> None:
    steps = (await server.fit("Ann", 3)).steps
    server.components.failing = "kokoro_gradient"
    calls = len(server.components.calls)
    while len(server.components.calls) < calls + 2:
        await asyncio.sleep(0.001)
    server.components.failing = ""
    voice = await server.until_steps("Ann", steps + 25)
    assert voice.status == "fitting" and voice.steps > steps


async def test_a_new_voice_of_a_removed_name_is_its_own(server) -> None:
    await server.fit("Ann", 25)
    await server.ask("remove", "Ann")
    other = tuple((name, person(2.5)) for name, _ in FILES)
    begun = await server.ask("start", "Ann", other)
    assert begun["steps"] == 0 and begun["curve"] == []
    voice = await server.until_steps("Ann", 41)
    assert voice.curve[0][1] == pytest.approx(np.cos(2.5 - MIX), abs=0.02)


async def test_a_waiting_voice_is_stopped_at_once_and_a_stop_is_for_one_voice(server, home):
    for name in ("Ann", "Ben"):
        await server.ask("start", name, FILES)
    await server.until_steps("Ann", 3)
    stopped = await server.ask("stop", "Ben")
    assert (stopped["status"], stopped["error"]) == (
        *("failed", "it was stopped before its turn came"),
    )
    await server.ask("remove", "Ben")
    await server.ask("stop", "Ann")
    await server.until_over("Ann")
    assert [*home.glob("*.stop")] == []


async def test_long_recordings_are_heard_in_stretches(server) -> None:
    long = tuple((name, person(seconds=70)) for name, _ in FILES[:3])
    await server.ask("start", "Ann", long)
    assert server.components.calls.count("speaker_embedding") >= 9
    assert server.components.longest <= 30 * 16_000
