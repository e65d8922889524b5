"""Hand the requests of an entry point to another process, which answers for the whole server.

The process of `speech` has the event loop, the limits and the order of all requests.
`speech_stream` and further names of `speech` are separate models in Triton, with separate
processes, which pass each request on over a local socket. A BLS call would hold a thread of
Triton's pool for the length of the request, and has one answer only. `Relay` hands over, and
`RelayServer` answers.

A frame `request` goes to the host. Frames `answer` and at most one `error` come back, then `end`.
A frame `cancel` goes to the host when the client gives up.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any

from conch.bls.call import UNLOADED
from conch.bls.channel import POLL_S, FrameChannel, Header, Trusts, encoded, peer_of
from conch.bls.service import AccessRecord, Answer, Message, Responder, Start
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

PATIENCE_S = 15.0
"""Longest wait of a request for a host that is being loaded, in seconds."""
WATCH_S = 0.5
"""Seconds between two checks for clients that have given up: each check asks Triton."""
LATE_S = 1.0
"""Seconds without the address after which an error is logged."""


@dataclass(frozen=True, slots=True)
class RelayConfig:
    host: str = "speech"
    """Name of the model that answers. It must be on the same server."""


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    responder: Responder
    record: AccessRecord

    def refuse(self, error: TranscriptionError) -> None:
        """Answer by an error, with a line in the access log, since the host writes none."""
        self.record.log(error)
        self.responder.fail(error)
        self.responder.end()


class Relay:
    """Passes requests to the host in another process, and its answers to the clients."""

    def __init__(
        self, address: str, host: str, trusts: Trusts, patience_s: float = PATIENCE_S
    ) -> None:
        """A request waits at most `patience_s` seconds for the model `host`, which answers."""
        self._address, self._host, self._trusts = address, host, trusts
        self._patience_s = patience_s
        self._numbers = count()
        self._lock = threading.Lock()
        self._channel: FrameChannel | None = None
        self._waiting: dict[int, _PendingRequest] = {}
        """Requests that the host has, by number."""
        self._arrived: SimpleQueue[tuple[Message, Responder] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"relay-{name}", daemon=True)
            for name, target in (("send", self._run), ("cancel", self._watch))
        ]
        for thread in self._threads:
            thread.start()

    def start(self, message: Message, responder: Responder) -> None:
        self._arrived.put((message, responder))

    def close(self) -> None:
        """Pass on no more requests, and answer waiting ones by an error."""
        self._closing.set()
        self._arrived.put(None)
        if channel := self._channel:
            channel.close()
        for thread in self._threads:
            thread.join()
        if channel := self._channel:
            channel.close()

    def _run(self) -> None:
        # One request per call: its tensors must not live until the next one comes.
        while self._take():
            pass

    def _take(self) -> bool:
        if (item := self._arrived.get()) is None:
            return False
        message, responder = item
        waiting = _PendingRequest(responder, AccessRecord(message.request_id, message.model))
        try:
            self._hand_over(message, waiting)
        except Exception as error:
            waiting.refuse(public_error(error))
        return True

    def _hand_over(self, message: Message, waiting: _PendingRequest) -> None:
        number = next(self._numbers)
        header = {"kind": "request", "number": number, "message": message.header_fields()}
        frame = encoded(header, message.read_inputs())
        until = time.monotonic() + self._patience_s
        while True:
            channel = self._connected(until)
            with self._lock:
                if channel is self._channel:  # otherwise it was lost meanwhile
                    self._waiting[number] = waiting
                    break
        try:
            channel.send(frame)
        except OSError:
            self._lost(number)

    def _connected(self, until: float) -> FrameChannel:
        """Return the connection to the host; wait for one that is being loaded, or raise."""
        while not self._closing.is_set():
            if channel := self._channel:
                return channel
            connection = socket.socket(socket.AF_UNIX)
            is_there = connection.connect_ex(self._address) == 0
            if is_there and self._trusts(*peer_of(connection)):
                made = FrameChannel(connection, self._received, self._closed)
                with self._lock:
                    self._channel = made
                made.start()
                return made
            connection.close()
            if time.monotonic() > until:
                break
            self._closing.wait(POLL_S)
        raise OverloadedError(
            f"the model {self._host}, which answers for this one, is not loaded or is being "
            "replaced; try again"
        )

    def _received(self, header: Header, tensors: Mapping[str, Array]) -> None:
        number, frame_type = header["number"], header["kind"]
        with self._lock:
            waiting = self._waiting.get(number)
            if frame_type == "end":
                self._waiting.pop(number, None)
        if waiting is None:
            return
        if frame_type == "end":
            waiting.responder.end()
        elif frame_type == "answer":
            waiting.responder.send(tensors)
        else:
            text = header["error"]
            waiting.responder.fail(from_wire(text) or InternalError(text))

    def _closed(self, channel: FrameChannel) -> None:
        with self._lock:
            if self._channel is channel:
                self._channel = None
            numbers = list(self._waiting)
        for number in numbers:
            self._lost(number)

    def _lost(self, number: int) -> None:
        with self._lock:
            waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.refuse(
                OverloadedError(UNLOADED)
                if self._closing.is_set()
                else ProcessLostError(f"the process of {self._host} died with the request")
            )

    def _watch(self) -> None:
        """Report clients that have given up to the host."""
        reported: set[int] = set()
        while not self._closing.wait(WATCH_S):
            with self._lock:
                channel, waiting = self._channel, dict(self._waiting)
            reported &= waiting.keys()
            for number in waiting.keys() - reported:
                if channel and _has_cancelled(waiting[number].responder):
                    reported.add(number)
                    with suppress(OSError):
                        channel.send(encoded({"kind": "cancel", "number": number}))


def _has_cancelled(responder: Responder) -> bool:
    try:
        return responder.is_cancelled()
    except Exception:
        logger.exception("whether a client has given up could not be checked")
        return False


class RelayServer:
    def __init__(self, address: str, start: Start, trusts: Trusts) -> None:
        """Wait on a thread for processes that `trusts` accepts; `start` gets their requests."""
        self._address, self._start, self._trusts = address, start, trusts
        self._is_draining = False
        self._closing = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._peers: set[_Peer] = set()
        self._thread = threading.Thread(target=self._run, name="relay-server", daemon=True)
        self._thread.start()

    def drain(self, timeout_s: float) -> None:
        """Refuse further requests, and wait for those in flight, which Triton does not know."""
        self._is_draining = True
        until = time.monotonic() + timeout_s
        while any(peer.clients for peer in list(self._peers)) and time.monotonic() < until:
            time.sleep(POLL_S)

    def close(self) -> None:
        """Send the answers made so far, and end all connections."""
        self._is_draining = True
        self._closing.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        for peer in list(self._peers):
            peer.close()

    def _run(self) -> None:
        late = time.monotonic() + LATE_S
        # The process that this one replaces may keep the address for a moment.
        while not _succeeds(lambda: self._socket.bind(self._address)):
            if self._closing.wait(POLL_S):
                return
            if time.monotonic() > late:
                logger.error("another process has the address %r", self._address)
                late = float("inf")
        self._socket.listen()
        while not self._closing.is_set():
            try:
                self._accept()
            except OSError:
                if not self._closing.wait(POLL_S):
                    logger.exception("another process could not be connected")

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        if self._trusts(*peer_of(connection)):
            _Peer(connection, self._taken, self._peers)
        else:
            logger.error("a process that is not part of this server tried to hand over requests")
            connection.close()

    def _taken(self, message: Message, responder: Responder) -> None:
        if self._is_draining:
            raise OverloadedError(UNLOADED)
        self._start(message, responder)


class _Peer:
    def __init__(self, connection: socket.socket, taken: Start, peers: "set[_Peer]") -> None:
        self.clients: dict[int, _RemoteClient] = {}
        self._taken, self._peers = taken, peers
        # A thread for this peer: the event loop must not wait for one that does not read.
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="relay-answers")
        self._channel = FrameChannel(connection, self._received, self._closed)
        peers.add(self)
        self._channel.start()

    def send(self, header: Header, tensors: Mapping[str, Array] | None = None) -> None:
        """Send a frame later, in order; it is dropped if the peer has gone."""
        with suppress(RuntimeError):  # the peer has gone
            self._sender.submit(_succeeds, partial(self._channel.send, encoded(header, tensors)))

    def close(self) -> None:
        self._sender.shutdown()
        self._channel.close()

    def _received(self, header: Header, tensors: Mapping[str, Array]) -> None:
        number = header["number"]
        if header["kind"] == "cancel":
            if client := self.clients.get(number):
                client.has_cancelled = True
            return
        client = self.clients[number] = _RemoteClient(self, number)
        try:
            plain = {**header["message"], "outputs": tuple(header["message"]["outputs"])}
            self._taken(Message(**plain, read_inputs=lambda: tensors), client)
        except Exception as error:
            client.fail(public_error(error))
            client.end()

    def _closed(self, channel: FrameChannel) -> None:
        for client in list(self.clients.values()):
            client.has_cancelled = True
        self._sender.shutdown(wait=False, cancel_futures=True)
        self._peers.discard(self)


class _RemoteClient:
    """Answers a request of another process; see `conch.bls.service.Responder`."""

    def __init__(self, peer: _Peer, number: int) -> None:
        self._peer, self._number = peer, number
        self.has_cancelled = False

    def is_cancelled(self) -> bool:
        return self.has_cancelled

    def send(self, answer: Answer) -> None:
        self._peer.send({"kind": "answer", "number": self._number}, answer)

    def fail(self, error: TranscriptionError) -> None:
        self._peer.send({"kind": "error", "number": self._number, "error": to_wire(error)})

    def end(self) -> None:
        self._peer.clients.pop(self._number, None)
        self._peer.send({"kind": "end", "number": self._number})


def _succeeds(act: Callable[[], Any]) -> bool:
    """Call a function on a socket; return whether it raised no OSError."""
    try:
        act()
    except OSError:
        return False
    return True
