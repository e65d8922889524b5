"""Hand the requests of an entry point to another process, which answers for the whole server.

`speech` has the event loop, the limits and the order of all requests. `speech_stream` and further
names of `speech` are models of their own in Triton, so in processes of their own. They hand each
request on over a local socket: a BLS call would hold a thread of Triton's pool for the length of
the request, and carries one answer only.

A request is a frame `request`. Frames `answer` and at most one `error` follow it back, then `end`.
A frame `cancel` goes forth when the client gives up.
"""

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import count
from queue import SimpleQueue
from typing import Any

from conch.bls.channel import Channel, Header
from conch.bls.service import Answer, Message, Responder
from conch.component import Array
from conch.wire.errors import (
    InternalError,
    OverloadedError,
    ProcessLostError,
    TranscriptionError,
    from_wire,
    public_error,
    to_wire,
)

logger = logging.getLogger(__name__)

Start = Callable[[Message, Responder], None]

PATIENCE_S = 15.0
"""Longest time for which a request waits for a host that is being loaded, in seconds."""
POLL_S = 0.05
"""Seconds between two tries to find the host, and between two looks at clients that give up."""

_PLAIN = [item.name for item in fields(Message) if item.name not in ("read_inputs", "outputs")]


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """Parameters of a model whose requests another one answers."""

    host: str = "speech"
    """Name of the model that answers. It must be on the same server."""


def address_of(server: int, began: str, model: str) -> str:
    """Return the address at which a model takes the requests of others.

    It is a name of Linux's abstract namespace: it belongs to the process, and ends with it.

    Args:
        server: Process id of `tritonserver`.
        began: When this process has started, since ids of processes come again.
        model: The model that answers.
    """
    return f"\0conch-{server}-{began}-{model}"


class RelayServer:
    """Takes requests of other processes of this user for a host."""

    def __init__(self, address: str, start: Start) -> None:
        """Wait for other processes, on a thread.

        Args:
            address: As of `address_of`.
            start: Starts to answer a request, as `Host.start`.
        """
        self._address, self._start = address, start
        self._closing = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._channels: set[Channel] = set()
        self._thread = threading.Thread(target=self._run, name="relay-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, and end all connections."""
        self._closing.set()
        _done(lambda: self._socket.shutdown(socket.SHUT_RDWR))
        self._thread.join()
        self._socket.close()
        for channel in list(self._channels):
            channel.close()

    def _run(self) -> None:
        # The process that is replaced by this one may have the address for a moment.
        while not _done(lambda: self._socket.bind(self._address)):
            if self._closing.wait(POLL_S):
                return
        self._socket.listen()
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            if is_own(connection):
                self._serve(connection)
            else:
                logger.error("a process of another user has tried to hand over requests")
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        clients: dict[int, _RemoteClient] = {}

        def received(header: Header, tensors: Mapping[str, Array]) -> None:
            ticket = header["ticket"]
            if header["kind"] == "cancel":
                if ticket in clients:
                    clients[ticket].has_gone = True
                return
            client = clients[ticket] = _RemoteClient(channel, ticket, clients)
            message = header["message"]
            outputs = tuple(message.pop("outputs"))
            self._start(Message(**message, outputs=outputs, read_inputs=lambda: tensors), client)

        def closed() -> None:
            for client in list(clients.values()):
                client.has_gone = True
            self._channels.discard(channel)

        channel = Channel(connection, received, closed)
        self._channels.add(channel)
        channel.start()


class _RemoteClient:
    """Answers a request of another process; see `conch.bls.service.Responder`."""

    def __init__(self, channel: Channel, ticket: int, clients: "dict[int, _RemoteClient]") -> None:
        self._channel, self._ticket, self._clients = channel, ticket, clients
        self.has_gone = False

    def is_cancelled(self) -> bool:
        return self.has_gone

    def send(self, answer: Answer) -> None:
        self._channel.send({"kind": "answer", "ticket": self._ticket}, answer)

    def fail(self, error: TranscriptionError) -> None:
        header = {"kind": "error", "ticket": self._ticket, "error": to_wire(error)}
        self._channel.send(header)

    def end(self) -> None:
        self._channel.send({"kind": "end", "ticket": self._ticket})
        self._clients.pop(self._ticket, None)


class Relay:
    """Hands requests to the host in another process, and its answers to their clients."""

    def __init__(self, address: str, host: str, patience_s: float = PATIENCE_S) -> None:
        """Look for the host with the first request.

        Args:
            address: Where the host takes requests, as of `address_of`.
            host: Name of its model, for errors.
            patience_s: Longest time for which a request waits for the host, in seconds.
        """
        self._address, self._host, self._patience_s = address, host, patience_s
        self._tickets = count()
        self._clients: dict[int, Responder] = {}
        """Who waits for answers."""
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._waiting: SimpleQueue[tuple[float, Message, Responder] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"relay-{name}", daemon=True)
            for name, target in (("send", self._run), ("cancel", self._watch))
        ]
        for thread in self._threads:
            thread.start()

    def start(self, message: Message, responder: Responder) -> None:
        """Start to answer a request, without waiting for it."""
        self._waiting.put((time.monotonic(), message, responder))

    def close(self) -> None:
        """Hand no more requests over, and answer those that wait by an error."""
        self._closing.set()
        self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        if self._channel:
            self._channel.close()

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            arrived, message, responder = item
            try:
                self._hand_over(message, responder, arrived + self._patience_s)
            except Exception as error:
                responder.fail(public_error(error))
                responder.end()

    def _hand_over(self, message: Message, responder: Responder, until: float) -> None:
        plain = {name: getattr(message, name) for name in _PLAIN}
        header = {"message": {**plain, "outputs": message.outputs}}
        inputs = message.read_inputs()
        channel = self._connected(until)
        ticket = next(self._tickets)
        with self._lock:
            self._clients[ticket] = responder
        channel.send({"kind": "request", "ticket": ticket, **header}, inputs)
        if self._channel is not channel:  # closed meanwhile
            self._lost(ticket)

    def _connected(self, until: float) -> Channel:
        """Return the connection to the host; wait for one that is being loaded.

        Raises:
            OverloadedError: there is no host, or this model is being unloaded.
        """
        while (channel := self._channel) is None:
            if connection := _connection_to(self._address):
                self._channel = channel = Channel(connection, self._received, self._closed)
                channel.start()
                return channel
            if time.monotonic() > until or self._closing.wait(POLL_S):
                raise OverloadedError(
                    f"the model {self._host}, which answers for this one, is not loaded or is "
                    "being replaced; try again"
                )
        return channel

    def _received(self, header: Header, tensors: Mapping[str, Array]) -> None:
        ticket = header["ticket"]
        responder = self._clients.get(ticket)
        if responder is None:
            return
        if header["kind"] == "answer":
            responder.send(tensors)
        elif header["kind"] == "error":
            text = header["error"]
            responder.fail(from_wire(text) or InternalError(text))
        else:
            with self._lock:
                del self._clients[ticket]
            responder.end()

    def _closed(self) -> None:
        self._channel = None
        for ticket in list(self._clients):
            self._lost(ticket)

    def _lost(self, ticket: int) -> None:
        with self._lock:
            responder = self._clients.pop(ticket, None)
        if responder is not None:
            responder.fail(ProcessLostError(f"the process of {self._host} died with the request"))
            responder.end()

    def _watch(self) -> None:
        """Tell the host of clients that give up."""
        told: set[int] = set()
        while not self._closing.wait(POLL_S):
            with self._lock:
                clients = dict(self._clients)
            told &= clients.keys()
            for ticket, responder in clients.items():
                channel = self._channel
                if ticket not in told and channel and responder.is_cancelled():
                    told.add(ticket)
                    channel.send({"kind": "cancel", "ticket": ticket})


def is_own(connection: socket.socket) -> bool:
    """Return whether the peer of a local connection is a process of this user."""
    credentials = struct.Struct("3i")
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    _, user, _ = credentials.unpack(peer)
    return bool(user == os.geteuid())


def _connection_to(address: str) -> socket.socket | None:
    """Return a connection to a process of this user; None if there is none."""
    connection = socket.socket(socket.AF_UNIX)
    if _done(lambda: connection.connect(address)) and is_own(connection):
        return connection
    connection.close()
    return None


def _done(act: Callable[[], Any]) -> bool:
    """Do something with a socket; return whether it could be done."""
    try:
        act()
    except OSError:
        return False
    return True
