"""Conch's own dialect of a live session: commands and messages are JSON with a type."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from conch.gateway.errors import ApiError
from conch.gateway.socket_session import SocketSession
from conch.wire.result import strict_json

PROTOCOL = "conch"
"""Subprotocol for browsers, which can only send a key as a second one."""


class Command(msgspec.Struct):
    """A text frame of a client; further fields are ignored."""

    type: str
    text: str = ""


_COMMANDS = msgspec.json.Decoder(Command)


class PlainSession(SocketSession):
    """A session whose client sends commands and reads messages."""

    async def fail(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict()})

    async def _greet(self, **fields: Any) -> None:
        session, until = f"sess_{secrets.token_hex(12)}", self._expires_at
        await self._send({"type": "ready", "session": session, **fields, "expires_at": until})

    async def _refuse(self, sent: str | bytes, known: Sequence[str]) -> None:
        """Report a frame that is no command."""
        names = ", ".join(known)
        message = f"a text frame is JSON with a type of {names}; sent: {sent!r:.80}"
        await self.fail(ApiError(400, message, code="unknown_message"))

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send(strict_json(message))


def command_in(frame: str | bytes) -> Command | None:
    """Return the command of a frame, None if it is none."""
    try:
        return _COMMANDS.decode(frame)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
