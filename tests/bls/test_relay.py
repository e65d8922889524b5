"""Requests that one process hands to another, over a real socket."""

import os
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np
import pytest
from waiting import wait_until

from conch.bls.channel import FrameChannel, address_of
from conch.bls.relay import Relay, RelayServer
from conch.bls.service import Message, Responder
from conch.wire.errors import OptionError, OverloadedError, ProcessLostError

PIECE = 3 << 20


class Client:
    """Takes the answers of one request."""

    def __init__(self) -> None:
        self.answers: SimpleQueue = SimpleQueue()
        self.has_gone = False

    def is_cancelled(self) -> bool:
        return self.has_gone

    def send(self, answer) -> None:
        self.answers.put(answer)

    def fail(self, error) -> None:
        self.answers.put(error)

    def end(self) -> None:
        self.answers.put("end")

    def next(self):
        return self.answers.get(timeout=20)


def is_this(process: int, user: int) -> bool:
    return (process, user) == (os.getpid(), os.geteuid())


class Host:
    """Keeps the requests that it gets, for the test to answer."""

    def __init__(self, address: str) -> None:
        self.requests: SimpleQueue[tuple[Message, Responder]] = SimpleQueue()
        self.server = RelayServer(address, lambda *request: self.requests.put(request), is_this)

    def next(self) -> tuple[Message, Responder]:
        return self.requests.get(timeout=20)


@pytest.fixture
def address() -> str:
    return address_of(f"test-{os.getpid()}-{os.urandom(4).hex()}")


@pytest.fixture
def host(address) -> Iterator[Host]:
    host = Host(address)
    yield host
    host.server.close()


@contextmanager
def relaying(address: str, patience_s: float = 20.0) -> Iterator[Relay]:
    relay = Relay(address, "speech", is_this, patience_s)
    try:
        yield relay
    finally:
        relay.close()


def message(**changes) -> Message:
    inputs = {
        "WAV": np.linspace(-1, 1, PIECE, dtype=np.float32)[np.newaxis],
        "WAV_LENS": np.array([[PIECE]], np.int32),
        "AUDIO": np.array([[b"RIFF\x00" * 100_000, b""]], dtype=np.object_),
        "PCM16": np.zeros((1, 0), np.int16),  # the last chunk of a stream may be empty
    }
    settings = {
        "model": "speech_stream",
        "read_inputs": lambda: inputs,
        "outputs": ("TRANSCRIPTS", "RESULT"),
        "parameters": {"nbest": 2, "rescore": True, "lm_weight": 0.5, "language": "dé"},
        "request_id": "call-7",
        "stream_id": "a-stream",
        "starts": True,
        "is_decoupled": True,
        "trace": {"traceparent": "00-1-2-01"},
    }
    return Message(**{**settings, **changes})


def test_a_request_and_its_answers_arrive_as_they_were(address, host):
    sent, client = message(), Client()
    with relaying(address) as relay:
        relay.start(sent, client)
        taken, responder = host.next()
        for name in ("model", "outputs", "parameters", "request_id", "stream_id", "trace"):
            assert getattr(taken, name) == getattr(sent, name)
        assert (taken.starts, taken.ends, taken.is_decoupled) == (True, False, True)
        for name, array in taken.read_inputs().items():
            wanted = sent.read_inputs()[name]
            assert array.dtype == wanted.dtype
            assert array.shape == wanted.shape
            assert (array == wanted).all()
        taken.read_inputs()["WAV"][0, 0] = 0.5  # as the tensor of a model's own request
        for score in (1.0, -np.inf):
            responder.send({"SCORES": np.array([[score]], np.float32)})
        responder.fail(OptionError("option 'nbest' takes an integer"))
        responder.end()
        assert client.next()["SCORES"].tolist() == [[1.0]]
        assert client.next()["SCORES"].tolist() == [[-np.inf]]
        error = client.next()
        assert (type(error), str(error)) == (OptionError, "option 'nbest' takes an integer")
        assert client.next() == "end"


def test_many_requests_at_once_keep_their_answers(address, host):
    clients = [Client() for _ in range(64)]
    with relaying(address) as relay:
        for number, client in enumerate(clients):
            relay.start(message(request_id=str(number), read_inputs=dict), client)
        for taken, responder in [host.next() for _ in clients][::-1]:
            responder.send({"N": np.array([int(taken.request_id)])})
            responder.end()
        for number, client in enumerate(clients):
            assert client.next()["N"].item() == number
            assert client.next() == "end"


def test_the_host_learns_that_a_client_has_gone(address, host):
    client, other = Client(), Client()
    with relaying(address) as relay:
        relay.start(message(read_inputs=dict), client)
        relay.start(message(read_inputs=dict), other)
        (_, responder), (_, others) = host.next(), host.next()
        assert not responder.is_cancelled()
        client.has_gone = True
        wait_until(responder.is_cancelled)
        assert not others.is_cancelled()


def test_the_host_learns_that_the_other_process_has_gone(address, host):
    with relaying(address) as relay:
        relay.start(message(read_inputs=dict), Client())
        _, responder = host.next()
    wait_until(responder.is_cancelled)
    responder.send({"N": np.zeros(1)})  # nobody reads it
    responder.end()


def test_a_host_that_dies_is_told_and_its_successor_is_found(address):
    host, client, late = Host(address), Client(), Client()
    with relaying(address) as relay:
        relay.start(message(read_inputs=dict), client)
        host.next()
        host.server.close()
        assert isinstance(client.next(), ProcessLostError)
        assert client.next() == "end"
        relay.start(message(read_inputs=dict), late)
        successor = Host(address)
        try:
            _, responder = successor.next()
            responder.end()
            assert late.next() == "end"
        finally:
            successor.server.close()


def test_without_a_host_a_request_is_refused(address):
    client = Client()
    with relaying(address, patience_s=0.1) as relay:
        relay.start(message(read_inputs=dict), client)
        error = client.next()
        assert isinstance(error, OverloadedError)
        assert "the model speech, which answers for this one, is not loaded" in str(error)
        assert client.next() == "end"


def test_a_request_that_waits_for_a_host_is_answered_when_the_model_is_unloaded(address):
    client = Client()
    with relaying(address) as relay:
        relay.start(message(read_inputs=dict), client)
    assert isinstance(client.next(), OverloadedError)
    assert client.next() == "end"


def test_a_request_that_cannot_be_read_fails_alone(address, host):
    def broken():
        raise ValueError("a tensor without memory")

    client, other = Client(), Client()
    with relaying(address) as relay:
        relay.start(message(read_inputs=broken), client)
        relay.start(message(read_inputs=dict), other)
        assert client.next().code == "INTERNAL"
        assert client.next() == "end"
        host.next()[1].end()
        assert other.next() == "end"


def test_a_frame_that_breaks_off_is_not_taken():
    here, there = socket.socketpair()
    received, closed = [], threading.Event()
    channel = FrameChannel(
        here, lambda *frame: received.append(frame), lambda channel: closed.set()
    )
    channel.start()
    there.sendall(b"\x00\x00\x00\x40{")
    there.close()
    assert closed.wait(20)
    assert not received
    channel.close()


def test_who_is_not_trusted_hands_nothing_over_and_gets_nothing(address):
    requests = []
    server = RelayServer(address, lambda *request: requests.append(request), lambda *peer: False)
    client, other = Client(), Client()
    try:
        with relaying(address, patience_s=20) as relay:
            relay.start(message(read_inputs=dict), client)
            assert isinstance(client.next(), ProcessLostError)
        stranger = Relay(address, "speech", lambda *peer: False, patience_s=0.1)
        stranger.start(message(read_inputs=dict), other)
        assert isinstance(other.next(), OverloadedError)
        stranger.close()
    finally:
        server.close()
    assert not requests


def test_a_host_that_drains_answers_what_it_has_and_refuses_more(address, host):
    client, late = Client(), Client()
    with relaying(address) as relay:
        relay.start(message(read_inputs=dict), client)
        _, responder = host.next()
        draining = threading.Thread(target=host.server.drain, args=(20.0,))
        draining.start()
        relay.start(message(read_inputs=dict), late)
        error = late.next()
        assert (type(error), str(error)) == (
            OverloadedError,
            "the model is being unloaded; try again",
        )
        responder.send({"N": np.ones(1)})
        responder.end()
        draining.join(20)
        assert not draining.is_alive()
        host.server.close()
        assert client.next()["N"].item() == 1.0
        assert client.next() == "end"


def test_answers_that_were_given_leave_before_the_host_does(address, host):
    clients = [Client() for _ in range(200)]
    with relaying(address) as relay:
        for client in clients:
            relay.start(message(read_inputs=dict), client)
        for _, responder in [host.next() for _ in clients]:
            responder.send({"N": np.zeros(50_000)})
            responder.end()
        host.server.close()
        for client in clients:
            assert client.next()["N"].shape == (50_000,)
            assert client.next() == "end"


def test_a_request_that_the_host_cannot_begin_fails_alone(address):
    def broken(message: Message, responder: Responder) -> None:
        if message.request_id == "broken":
            raise RuntimeError("the event loop is closed")
        responder.end()

    client, other = Client(), Client()
    server = RelayServer(address, broken, is_this)
    try:
        with relaying(address) as relay:
            relay.start(message(read_inputs=dict, request_id="broken"), client)
            relay.start(message(read_inputs=dict), other)
            assert client.next().code == "INTERNAL"
            assert client.next() == "end"
            assert other.next() == "end"
    finally:
        server.close()


def test_a_tensor_does_not_stay_until_the_next_request(address, host):
    held = np.zeros(1000, np.float32)
    seen = weakref.ref(held)
    inputs = {"WAV": held}
    with relaying(address) as relay:
        relay.start(message(read_inputs=inputs.copy), client := Client())
        _, responder = host.next()
        responder.end()
        assert client.next() == "end"
        del held, inputs, responder, _
        wait_until(lambda: seen() is None)
