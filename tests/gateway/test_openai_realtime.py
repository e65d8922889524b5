"""Live sessions by the unmodified `openai` package: OpenAI's realtime transcription."""

import asyncio
import base64
import itertools
import time
from typing import Any

import numpy as np
import openai
import pytest
import soxr
from audio_files import audio_file
from gateways import Gateway
from openai import AsyncOpenAI, OpenAI
from recordings import wer

pytestmark = pytest.mark.server

RATE = 24_000
TRANSCRIPTION = {"intent": "transcription"}
ITEM = "conversation.item.input_audio_transcription"
BUFFER = "input_audio_buffer"
LOGPROBS = "item.input_audio_transcription.logprobs"
SILENCE = np.zeros(16_000 * 3 // 2, np.float32)
"""Longer than the silence that ends an utterance."""


def pcm16(waveform: np.ndarray) -> bytes:
    """Return FP32 samples at 16 kHz as 24 kHz PCM16."""
    resampled = soxr.resample(waveform, 16_000, RATE)
    return (np.clip(resampled, -1, 1) * 32767).astype("<i2").tobytes()


def mu_law(waveform: np.ndarray) -> bytes:
    """Return FP32 samples at 16 kHz as G.711 mu-law at 8 kHz."""
    samples = soxr.resample(waveform, 16_000, 8_000)
    return audio_file(samples, 8_000, format="RAW", subtype="ULAW")


def pieces(audio: bytes, bytes_per_second: int) -> list[str]:
    """Return audio in base64, 100 ms at a time."""
    step = bytes_per_second // 10
    parts = [audio[at : at + step] for at in range(0, len(audio), step)]
    return [base64.b64encode(part).decode() for part in parts]


def session(turn_detection: dict | None, audio: str = "audio/pcm", **more) -> Any:
    form = {"type": audio, "rate": RATE} if audio == "audio/pcm" else {"type": audio}
    given = {
        "format": form,
        "transcription": {"model": "gpt-4o-mini-transcribe-2025-12-15", "language": "en-US"},
        "turn_detection": turn_detection,
    }
    return {"type": "transcription", "audio": {"input": given}, **more}


def conforming(event):
    """Return an event of the SDK, which takes what it gets; fail if its type says otherwise."""
    # Of the beta, the types lack the first event, and the client secret that is null. Events of
    # Conch alone pass the package as they are.
    if not event.type.startswith(("transcription_session.", "conch.")):
        type(event).model_validate(event.to_dict(mode="json"))
    assert event.event_id, event
    return event


class Conversation:
    """A connection, and everything that came down it."""

    def __init__(self, connection, first: str = "session.created") -> None:
        self.connection = connection
        self.events: list[Any] = []
        created = self.next()
        assert created.type == first
        self.session = created.session

    def next(self):
        self.events.append(conforming(self.connection.recv()))
        return self.events[-1]

    def until(self, kind: str, count: int = 1):
        """Return the event after which `count` of a kind have come."""
        while True:
            event = self.next()
            assert event.type != "error", event
            count -= event.type == kind
            if not count:
                return event

    def update(self, wanted: dict):
        self.connection.session.update(session=wanted)
        return self.until("session.updated").session

    def append(self, audio: bytes, bytes_per_second: int = 2 * RATE) -> None:
        for piece in pieces(audio, bytes_per_second):
            self.connection.input_audio_buffer.append(audio=piece)

    def text_of(self, audio: bytes, bytes_per_second: int = 2 * RATE):
        """Send audio as a turn of the client, and return the event of its text."""
        self.append(audio, bytes_per_second)
        self.connection.input_audio_buffer.commit()
        return self.until(f"{ITEM}.completed")

    def of(self, kind: str) -> list:
        return [event for event in self.events if event.type == kind]

    def index_of(self, kind: str) -> int:
        return [event.type for event in self.events].index(kind)


def settings_of(gateway: Gateway) -> dict[str, Any]:
    """Return how a client finds a gateway without TLS."""
    settings = {"base_url": gateway.openai_url, "api_key": "any"}
    # Version 2 takes TLS for granted where nothing else is said.
    if openai.__version__.startswith("2."):
        settings["websocket_base_url"] = gateway.openai_url.replace("http", "ws", 1)
    return settings


@pytest.fixture
def client(gateway):
    with OpenAI(**settings_of(gateway)) as made:
        yield made


@pytest.fixture
def conversation(client):
    with client.realtime.connect(extra_query=TRANSCRIPTION) as connection:
        yield Conversation(connection)


def test_a_session_tells_itself_and_what_an_update_makes_of_it(conversation):
    begun = conversation.session.to_dict()
    assert begun["id"].startswith("sess_")
    assert begun["object"] == "realtime.transcription_session"
    assert begun["type"] == "transcription"
    assert begun["expires_at"] > time.time()
    assert begun["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE}
    assert begun["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    vad = {"type": "server_vad", "silence_duration_ms": 700}
    updated = conversation.update(session(vad)).to_dict()
    assert updated["id"] == begun["id"]
    assert updated["audio"]["input"]["transcription"]["language"] == "en-US"
    assert updated["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 700
    # What an update leaves out stays.
    partly = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
    last = conversation.update(partly).to_dict()["audio"]["input"]
    assert last["turn_detection"] is None
    assert last["transcription"] == updated["audio"]["input"]["transcription"]


def test_turns_are_found_and_told_in_order(conversation, talk):
    vad = {"type": "server_vad", "silence_duration_ms": 500}
    conversation.update(session(vad, include=[LOGPROBS]))
    conversation.append(pcm16(talk.waveform()))
    conversation.until(f"{ITEM}.completed", 2)
    completed = conversation.of(f"{ITEM}.completed")
    assert wer(talk.text, " ".join(event.transcript for event in completed)) < 0.2
    started, stopped = (
        conversation.of(f"{BUFFER}.speech_{what}") for what in ("started", "stopped")
    )
    committed = conversation.of(f"{BUFFER}.committed")
    assert len(started) == len(stopped) == len(committed) == 2
    first, second = items = [event.item_id for event in committed]
    assert first != second
    assert [event.previous_item_id for event in committed] == [None, first]
    for events in (started, stopped, completed):
        assert [event.item_id for event in events] == items
    assert 0 <= started[0].audio_start_ms < stopped[0].audio_end_ms
    assert stopped[0].audio_end_ms < started[1].audio_start_ms < stopped[1].audio_end_ms
    assert conversation.index_of(f"{BUFFER}.speech_started") < conversation.index_of(
        f"{ITEM}.delta"
    )
    assert conversation.index_of(f"{BUFFER}.committed") < conversation.index_of(f"{ITEM}.completed")
    for event in completed:
        own = [one for one in conversation.of(f"{ITEM}.delta") if one.item_id == event.item_id]
        assert own
        assert event.content_index == 0
        assert event.usage.type == "duration"
        assert 3 < event.usage.seconds < 9
        assert event.logprobs
    ids = [event.event_id for event in conversation.events]
    assert len(set(ids)) == len(ids)


def test_a_turn_ends_when_audio_stops_however_much_silence_was_sent(conversation, recordings):
    """Of a gated microphone, a file, or a client that is done; the clock is that of the audio."""
    # Of one recording, from a pause to the end of the last word.
    spoken = recordings[0].waveform()[round(1.65 * 16_000) : round(3.95 * 16_000)]
    conversation.update(session({"type": "server_vad", "silence_duration_ms": 500}))
    begun_ms, ended_ms = 0.0, 0
    for silence_s in (0, 0.3, 0.6, 1.0):
        sent = np.concatenate([spoken, np.zeros(round(16_000 * silence_s), np.float32)])
        conversation.append(pcm16(sent))
        completed = conversation.until(f"{ITEM}.completed")
        assert "safe enough" in completed.transcript, silence_s
        started, stopped = (
            conversation.of(f"{BUFFER}.speech_{what}")[-1] for what in ("started", "stopped")
        )
        assert started.item_id == stopped.item_id == completed.item_id
        # The padding of 300 ms, as far as the turn before leaves it.
        assert max(ended_ms, begun_ms - 300) <= started.audio_start_ms < begun_ms + 1000
        ended_ms = stopped.audio_end_ms
        assert begun_ms + 2000 < ended_ms <= begun_ms + len(sent) / 16 + 1
        begun_ms += len(sent) / 16


async def test_words_come_while_somebody_speaks(gateway, recordings):
    """Sends an utterance as fast as it is spoken, and reads what comes meanwhile."""
    spoken = recordings[1]

    async with (
        AsyncOpenAI(**settings_of(gateway)) as client,
        client.realtime.connect(extra_query=TRANSCRIPTION) as connection,
    ):
        assert (await connection.recv()).type == "session.created"
        # On a busy machine passes are left out, unless the stream waits for them.
        wanted = session(
            {"type": "server_vad"}, include=["conch.partial"], conch={"adaptive": False}
        )
        await connection.session.update(session=wanted)
        events, has_words = [], asyncio.Event()

        async def speak() -> None:
            audio = pieces(pcm16(np.concatenate([spoken.waveform(), SILENCE])), 2 * RATE)
            begun = asyncio.get_running_loop().time()
            for number, piece in enumerate(audio):
                if number == len(audio) - 30:
                    # Words come while somebody speaks: the last 3 s wait for them.
                    await asyncio.wait_for(has_words.wait(), 60)
                await asyncio.sleep(begun + number / 10 - asyncio.get_running_loop().time())
                await connection.input_audio_buffer.append(audio=piece)

        speaking = asyncio.create_task(speak())
        # Its type knows no `include` but OpenAI's.
        assert (await connection.recv()).type == "session.updated"
        async for event in connection:
            events.append(conforming(event))
            if event.type == f"{ITEM}.delta":
                has_words.set()
            if event.type == f"{ITEM}.completed":
                break
        await speaking
    completed = events[-1]
    assert wer(spoken.text, completed.transcript) < 0.3
    deltas = [event for event in events if event.type == f"{ITEM}.delta"]
    assert {event.item_id for event in deltas} == {completed.item_id}
    partials = [event.to_dict() for event in events if event.type == "conch.partial"]
    assert {event["item_id"] for event in partials} == {completed.item_id}
    assert any(event["newest"] for event in partials)
    assert any(event["tentative"] for event in partials)
    assert len(deltas) > 1
    assert len(partials) > 3
    for event in partials:
        text = event["firm"] + event["tentative"] + event["newest"]
        assert text == " ".join(text.split())
    grown = [event["firm"] for event in partials]
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(grown))
    firm = "".join(event.delta for event in deltas).split()
    assert wer(" ".join(completed.transcript.split()[: len(firm)]), " ".join(firm)) < 0.25


def test_a_client_commits_turns_itself(conversation, speech, talk):
    updated = conversation.update(session(None, include=[LOGPROBS]))
    assert updated.audio.input.turn_detection is None
    for spoken in (speech, talk):
        completed = conversation.text_of(pcm16(spoken.waveform()))
        assert wer(spoken.text, completed.transcript) < 0.2
        assert completed.usage.seconds == pytest.approx(len(spoken.waveform()) / 16_000, abs=0.001)
        words = [token.token.strip() for token in completed.logprobs]
        assert words == completed.transcript.split()
        assert all(token.logprob <= 0 for token in completed.logprobs)
    first, second = conversation.of(f"{BUFFER}.committed")
    assert second.previous_item_id == first.item_id
    assert not conversation.of(f"{BUFFER}.speech_started")
    # What is cleared is not recognised.
    conversation.append(pcm16(speech.waveform()))
    conversation.connection.input_audio_buffer.clear()
    assert conversation.until(f"{BUFFER}.cleared")
    assert wer(speech.text, conversation.text_of(pcm16(speech.waveform())).transcript) < 0.2
    # Silence alone is an item without a text.
    assert conversation.text_of(bytes(2 * RATE)).transcript == ""


def test_an_error_keeps_the_session(conversation, speech):
    def error_of(event: dict):
        conversation.connection.send(event)
        answer = conversation.next()
        assert answer.type == "error", answer
        return answer.error

    conversation.update(session(None))
    error = error_of({"type": f"{BUFFER}.commit", "event_id": "mine"})
    assert (error.event_id, error.type) == ("mine", "invalid_request_error")
    assert error.code == "input_audio_buffer_commit_empty"
    error = error_of({"type": "response.create", "event_id": "mine-2"})
    assert error.event_id == "mine-2"
    assert error.param == "type"
    assert BUFFER in error.message, "the events that it takes"
    error = error_of({"type": f"{BUFFER}.append", "audio": "no base64!"})
    assert error.param == "audio"
    wrong = session({"type": "server_vad", "silence_duration_ms": -1})
    error = error_of({"type": "session.update", "session": wrong})
    assert error.param == "session.audio.input.turn_detection.silence_duration_ms"
    assert "-1" in error.message
    wrong = session(None)
    wrong["audio"]["input"]["transcription"]["model"] = "gpt-4o"
    error = error_of({"type": "session.update", "session": wrong})
    assert error.param == "session.audio.input.transcription.model"
    assert "GET /v1/models lists" in error.message
    completed = conversation.text_of(pcm16(speech.waveform()))
    assert wer(speech.text, completed.transcript) < 0.2


def test_mu_law_of_a_telephone(conversation, speech):
    updated = conversation.update(session(None, "audio/pcmu"))
    assert updated.audio.input.format.type == "audio/pcmu"
    completed = conversation.text_of(mu_law(speech.waveform()), 8_000)
    assert wer(speech.text, completed.transcript) < 0.4
    assert completed.usage.seconds == pytest.approx(len(speech.waveform()) / 16_000, abs=1)


def test_clients_of_the_beta_are_understood(client, gateway, speech):
    # The client of the beta takes TLS for granted in every version.
    client = client.with_options(websocket_base_url=gateway.openai_url.replace("http", "ws", 1))
    with client.beta.realtime.connect(model="whisper-1", extra_query=TRANSCRIPTION) as connection:
        conversation = Conversation(connection, "transcription_session.created")
        connection.transcription_session.update(
            session={
                "input_audio_format": "pcm16",
                "input_audio_transcription": {"model": "whisper-1", "language": "en"},
                "turn_detection": None,
            }
        )
        updated = conversation.until("transcription_session.updated").session
        assert updated.input_audio_format == "pcm16"
        assert updated.turn_detection is None
        completed = conversation.text_of(pcm16(speech.waveform()))
    assert wer(speech.text, completed.transcript) < 0.2


def test_a_secret_opens_a_session_over_tls(locked, speech):
    def client_with(key: str) -> OpenAI:
        transport = openai.DefaultHttpxClient(verify=locked.trust)
        return OpenAI(base_url=locked.openai_url, api_key=key, http_client=transport)

    def connected(client: OpenAI):
        # What the type of these does not name goes to websockets too. On two busy cores the answer
        # to a handshake once took more than its 10 s.
        options: Any = {"ssl": locked.trust, "open_timeout": 60}
        return client.realtime.connect(
            extra_query=TRANSCRIPTION, websocket_connection_options=options
        )

    with client_with(locked.key) as client:
        made = client.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": 60}, session=session(None)
        )
    assert made.value.startswith("ek_")
    assert 0 < made.expires_at - time.time() <= 61
    assert made.session.type == "transcription"
    with client_with(made.value) as client, connected(client) as connection:
        conversation = Conversation(connection)
        # The session of the secret.
        assert conversation.session.audio.input.turn_detection is None
        completed = conversation.text_of(pcm16(speech.waveform()))
        assert wer(speech.text, completed.transcript) < 0.2
    with client_with("wrong") as client, pytest.raises(Exception, match="401"):
        connected(client).enter()
