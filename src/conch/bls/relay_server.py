"""Take the requests that the processes of other entry points hand over; see `conch.bls.relay`."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from conch.bls.call import UNLOADED
from conch.bls.channel import POLL_S, FrameChannel, Header, Trusts, encoded, peer_of
from conch.bls.service import Answer, Message, Responder, Start
from conch.component import Array
from conch.wire.errors import OverloadedError, TranscriptionError, public_error, to_wire

logger = logging.getLogger(__name__)

LATE_S = 1.0
"""Seconds without the address after which an error is logged."""


class RelayServer:
    """Takes requests of other processes for a host."""

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
    """Another process that hands over requests."""

    def __init__(self, connection: socket.socket, taken: Start, peers: "set[_Peer]") -> None:
        self.clients: dict[int, _RemoteClient] = {}
        """Clients whose requests are in flight."""
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
        """Send the remaining frames, and end the connection."""
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
