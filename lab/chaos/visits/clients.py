"""The client of a door, found by its declaration."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from conch.gateway.doors import (
    DEEPGRAM_FILE,
    DEEPGRAM_LISTEN,
    DEEPGRAM_SPEAK,
    DEEPGRAM_SPEECH,
    DEEPGRAM_TURNS,
    REALTIME,
    SESSIONS,
    Door,
)
from lab.chaos.answers import Answer
from lab.chaos.visits import http_visits, riva_visits, socket_visits, wyoming_visits
from lab.chaos.visits.sent import Sent

Client: TypeAlias = Callable[[str, Door, Sent], Awaitable[Answer]]
"""Visits a door at `host:port`, sends something, and returns the answer."""

DIALECTS: Mapping[str, Client] = {
    REALTIME.name: socket_visits.realtime_visit,
    SESSIONS.name: http_visits.session_visit,
    DEEPGRAM_FILE.name: http_visits.deepgram_file_visit,
    DEEPGRAM_SPEECH.name: http_visits.deepgram_text_visit,
    DEEPGRAM_LISTEN.name: socket_visits.deepgram_listen_visit,
    DEEPGRAM_TURNS.name: socket_visits.deepgram_listen_visit,
    DEEPGRAM_SPEAK.name: socket_visits.deepgram_speak_visit,
}
"""Clients of doors that speak otherwise than others of their transport, by name."""
CLIENTS: Mapping[tuple[str, str], Client] = {
    ("http", "file"): http_visits.file_visit,
    ("http", "recordings"): http_visits.voice_visit,
    ("http", "text"): http_visits.text_visit,
    ("http", "transcript"): http_visits.transcript_visit,
    ("http", "settings"): http_visits.secret_visit,
    ("websocket", "live audio"): socket_visits.listen_visit,
    ("websocket", "live text"): socket_visits.speak_visit,
    ("grpc", "file"): riva_visits.file_visit,
    ("grpc", "live audio"): riva_visits.stream_visit,
    ("grpc", "text"): riva_visits.text_visit,
    ("grpc", "live text"): riva_visits.text_visit,
    ("tcp", "live audio"): wyoming_visits.listen_visit,
    ("tcp", "live text"): wyoming_visits.speak_visit,
}
"""The others, by transport and what they take."""


def client_of(door: Door) -> Client:
    """Return the client of a door; raise a KeyError that says how to give it one."""
    key = door.transport, door.takes
    if door.name not in DIALECTS and key not in CLIENTS:
        raise KeyError(f"{door.name} is a new kind of door: give {key} a client in {__name__}")
    return DIALECTS.get(door.name) or CLIENTS[key]
