"""The gateway's WebSockets: frames of Conch's own and events of OpenAI's, in any order."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

import aiohttp
import numpy as np
from hypothesis import strategies as st

from lab.chaos.answers import LOST, Answer
from lab.chaos.doors.target import PATIENCE_S, Target, answered
from lab.chaos.drawn import TEXTS, mostly, options, scalars, utf8, values
from lab.chaos.speech import files, speech

COMMANDS = ("finalize", "close", "keepalive", "nothing")
EVENTS = (
    *("session.update", "transcription_session.update", "input_audio_buffer.append"),
    *("input_audio_buffer.commit", "input_audio_buffer.clear", "nothing", ""),
)
Frame = bytes | str


@dataclass(frozen=True, slots=True)
class SocketScript:
    """A session: its address, the frames that are sent, and how it is left."""

    path: str
    frames: Sequence[Frame]
    is_closed: bool = True
    """Whether it is closed in order; else the connection is cut."""

    async def send(self, target: Target) -> list[Answer]:
        """Hold the session and return the answer to it, its close code."""
        return [await answered(self._held(target), patience_s=2 * PATIENCE_S)]

    async def _held(self, target: Target) -> Answer:
        try:
            async with target.session.ws_connect(target.gateway(self.path)) as socket:
                return await self._spoken(socket)
        except aiohttp.WSServerHandshakeError as error:
            return Answer(str(error.status), is_gateway=True)

    async def _spoken(self, socket: aiohttp.ClientWebSocketResponse) -> Answer:
        for frame in self.frames:
            if socket.closed:
                break
            try:
                if isinstance(frame, bytes):
                    await socket.send_bytes(frame)
                else:
                    await socket.send_str(frame)
            except ConnectionError:
                break  # the server has ended it; its code comes below
        if not self.is_closed:
            if (transport := socket.get_extra_info("socket")) is not None:
                transport.shutdown(2)
            return Answer("1000")
        if self.path.startswith("/v1/realtime"):
            await socket.close()
            return _closed(socket)
        if not socket.closed:
            await socket.send_str('{"type": "close"}')
        async for _ in socket:
            pass
        return _closed(socket)


def _closed(socket: aiohttp.ClientWebSocketResponse) -> Answer:
    code = socket.close_code
    return Answer(LOST if code is None or code == 1006 else str(code), is_gateway=True)


@st.composite
def listen_scripts(draw: st.DrawFn) -> SocketScript:
    query = draw(options())
    encodings = ["auto", "pcm16", "float32", "mulaw", "alaw", "container", "mp3", ""]
    if draw(st.booleans()):
        query["encoding"] = draw(st.sampled_from(encodings))
    if draw(st.integers(0, 3)) == 0:
        query["sample_rate"] = draw(st.sampled_from([8_000, 48_000, 0, -1, 10**30]))
    if draw(st.integers(0, 1)) == 0:
        query = {}
    pairs = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in query.items())
    commands = st.sampled_from(COMMANDS).map(lambda command: json.dumps({"type": command}))
    texts = mostly(commands, st.one_of(_json(), st.sampled_from(TEXTS)))
    frames = draw(st.lists(st.one_of(_audio(), texts), max_size=5))
    return SocketScript(f"/v1/conch/listen?{pairs}", tuple(frames), draw(st.integers(0, 3)) > 0)


@st.composite
def realtime_scripts(draw: st.DrawFn) -> SocketScript:
    frames = draw(st.lists(mostly(_event(), st.one_of(_json(), _audio())), max_size=6))
    intent = draw(st.sampled_from(["transcription"] * 6 + ["", "conversation", "\x00"]))
    path = f"/v1/realtime?intent={quote(intent)}"
    return SocketScript(path, tuple(frames), draw(st.integers(0, 3)) > 0)


@cache
def _event() -> st.SearchStrategy[str]:
    audio = _audio().map(lambda data: base64.b64encode(data).decode())
    append = st.builds(lambda data: {"type": EVENTS[2], "audio": data}, audio)
    session = st.fixed_dictionaries(
        {"type": st.sampled_from(["transcription", "realtime", 5])},
        optional={
            "audio": values().map(lambda value: {"input": value}),
            "conch": st.one_of(options(), values()),
            "include": values(),
            "turn_detection": values(),
        },
    )
    update = st.builds(lambda what: {"type": EVENTS[0], "session": what}, session)
    odd = st.builds(
        lambda event, value: {"type": event, "audio": value, "session": value},
        st.sampled_from(EVENTS),
        values(),
    )
    return st.one_of(append, update, odd).map(json.dumps)


@cache
def _json() -> st.SearchStrategy[str]:
    deep = st.sampled_from([50, 900, 100_000]).map(lambda depth: "[" * depth)
    return st.one_of(values().map(json.dumps), scalars().map(str).map(utf8), deep)


@cache
def _audio() -> st.SearchStrategy[bytes]:
    pcm = (speech()[:8_000] * 32_767).astype(np.int16).tobytes()
    return st.one_of(
        st.integers(0, len(pcm)).map(lambda at: pcm[:at]),
        st.binary(max_size=300),
        st.sampled_from(sorted(files())).map(lambda name: files()[name][:6_000]),
    )
