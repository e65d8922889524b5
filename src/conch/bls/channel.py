"""Send frames between two processes of one server, over a local socket.

A frame is the length of its header in four bytes, the header as JSON, and the tensors that the
header lists. Tensors of bytes have the length of each element in the header.
"""

import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from conch.component import Array
from conch.processes import stat_fields

logger = logging.getLogger(__name__)

Header = Mapping[str, Any]
"""The JSON part of a frame."""
Received = Callable[[Header, Mapping[str, Array]], None]
Frame = list[bytes | memoryview]
Trusts = Callable[[int, int], bool]
"""Returns whether a process may be the peer, by its id and its user."""

SEND_TIMEOUT_S = 10
"""Seconds after which a peer that reads nothing counts as gone."""
POLL_S = 0.05
"""Seconds between two tries to reach the host."""
_LENGTH = struct.Struct(">I")


def address_of(model: str) -> str:
    """Return the address at which a model of this server takes the requests of others.

    It is in Linux's abstract namespace, so it disappears with the process. It has the beginning of
    `tritonserver`, because process ids are reused.
    """
    server = os.getppid()
    return f"\0conch-{server}-{stat_fields(str(server))[19]}-{model}"


def is_of_this_server(process: int, user: int) -> bool:
    """Return whether a process is one of a model of this server, and of this user."""
    try:
        return user == os.geteuid() and int(stat_fields(str(process))[1]) == os.getppid()
    except OSError:  # it has ended, or belongs to another container
        return False


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return process and user of the peer of a local connection (Linux: unix(7), SO_PEERCRED)."""
    credentials = struct.Struct("3i")
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    process, user, _ = credentials.unpack(peer)
    return process, user


class FrameChannel:
    """A connection between two processes. Frames of one direction keep their order."""

    def __init__(
        self,
        connection: socket.socket,
        received: Received,
        closed: "Callable[[FrameChannel], None]",
    ) -> None:
        """Take a connected stream socket; nothing is read before `start`.

        On a thread, `received` gets each frame, and `closed` the channel when no frame can follow.
        """
        timeout = struct.pack("ll", SEND_TIMEOUT_S, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket, self._received, self._closed = connection, received, closed
        self._stream = connection.makefile("rb")
        self._sending = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="channel", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def send(self, frame: Frame) -> None:
        """Send a frame of `encoded`; return when the system has taken it. Any thread may send.

        Raise an OSError if the peer has gone.
        """
        with self._sending:
            try:
                for part in frame:
                    self._socket.sendall(part)
            except OSError:
                self._shut_down()  # the peer cannot read on after half a frame
                raise

    def close(self) -> None:
        self._shut_down()
        if self._reader is not threading.current_thread():
            self._reader.join()

    def _shut_down(self) -> None:
        with suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        try:
            # One frame per call: its tensors must not live until the next one comes.
            while True:
                self._take()
        except (OSError, EOFError):
            logger.debug("the connection of a channel has ended")
        finally:
            self._shut_down()
            with self._sending:
                self._stream.close()
                self._socket.close()
            self._closed(self)

    def _take(self) -> None:
        """Take one frame; raise EOFError at the end of the connection."""
        header = json.loads(self._bytes(*_LENGTH.unpack(self._bytes(_LENGTH.size))))
        tensors = {spec["name"]: self._tensor(spec) for spec in header.pop("tensors")}
        try:
            self._received(header, tensors)
        except Exception:
            logger.exception("a frame of another process could not be handled")

    def _tensor(self, spec: Mapping[str, Any]) -> Array:
        if "lengths" in spec:
            array = np.empty(len(spec["lengths"]), dtype=np.object_)
            array[:] = [self._bytes(length) for length in spec["lengths"]]
            return array.reshape(spec["shape"])
        numbers: Array = np.empty(spec["shape"], spec["dtype"])
        if self._stream.readinto(_memory(numbers)) < numbers.nbytes:
            raise EOFError
        return numbers

    def _bytes(self, length: int) -> bytes:
        data = self._stream.read(length)
        if len(data) < length:
            raise EOFError
        return data


def encoded(header: Header, tensors: Mapping[str, Array] | None = None) -> Frame:
    """Return a frame in parts, without a copy of its tensors: numbers, or objects of type bytes."""
    specs, parts = [], []
    for name, array in (tensors or {}).items():
        spec: dict[str, Any] = {"name": name, "shape": array.shape}
        if array.dtype == np.object_:
            items = array.ravel().tolist()
            spec["lengths"] = [len(item) for item in items]
            parts += items
        else:
            spec["dtype"] = array.dtype.str
            parts.append(_memory(np.ascontiguousarray(array)))
        specs.append(spec)
    text = json.dumps({**header, "tensors": specs}).encode()
    return [_LENGTH.pack(len(text)), text, *(part for part in parts if len(part))]


def _memory(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
