"""The calls of a decoder whose rows are in flight together, as `speech` makes them."""

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc
from infer_inputs import inputs_of

from conch.wire import entry_points

pytestmark = pytest.mark.server

PATIENCE_S = 60


class Decoder:
    """Calls of `moonshine_decoder`, and their answers in the order in which they come."""

    def __init__(self, client: grpc.InferenceServerClient, key: dict[str, str]) -> None:
        self._client, self._key = client, key
        self.answers: queue.Queue[tuple[str, Any, Any]] = queue.Queue()

    def encoded(self, waveform: np.ndarray) -> list[grpc.InferInput]:
        """Return the inputs of the decoder for a waveform."""
        answer = self._client.infer(
            "moonshine_encoder", inputs_of(grpc, waveform=waveform[None]), parameters=self._key
        )
        names = ("encoder_out", "encoder_out_lens")
        return inputs_of(grpc, **{name: answer.as_numpy(name) for name in names})

    def call(self, name: str, inputs: list[grpc.InferInput], **options: Any) -> Any:
        timeout = options.pop("timeout", None)
        return self._client.async_infer(
            "moonshine_decoder",
            inputs,
            lambda result, error: self.answers.put((name, result, error)),
            parameters={**options, **self._key},
            timeout=timeout,
        )

    def next_answer(self) -> tuple[str, Any, Any]:
        return self.answers.get(timeout=PATIENCE_S)


@pytest.fixture
def decoder(server, caller) -> Iterator[Decoder]:
    client = grpc.InferenceServerClient(server.grpc_url)
    yield Decoder(client, caller)
    client.close()


@pytest.fixture
def long(decoder, recordings) -> list[grpc.InferInput]:
    """Hidden states of 25 s, whose widest search takes seconds."""
    whole = np.concatenate([item.waveform() for item in recordings])
    return decoder.encoded(np.tile(whole, 4)[: 25 * 16_000])


@pytest.fixture
def short(decoder, recordings) -> list[grpc.InferInput]:
    return decoder.encoded(recordings[0].waveform())


def test_a_short_segment_does_not_wait_for_a_long_one(decoder, long, short):
    decoder.call("long", long, beam_size=32)
    decoder.call("short", short, beam_size=1)
    first, second = decoder.next_answer(), decoder.next_answer()
    assert [first[0], second[0]] == ["short", "long"]
    assert first[2] is second[2] is None


def test_a_call_that_is_told_to_leave_does_so(decoder, long, short):
    decoder.call("long", long, beam_size=32, **{entry_points.CALL_NUMBER: 7})
    name = ""
    while name != "long":
        # The first ones may overtake the call that they name, which is larger.
        decoder.call("leave", short, **{entry_points.LEAVING_CALL: 7})
        name, _, error = decoder.next_answer()
        wanted = "nobody waits for the call" if name == "long" else "call 7 leaves"
        assert wanted in str(error)


def test_a_call_whose_time_is_over_leaves(decoder, long, short):
    decoder.call("late", long, beam_size=32, timeout=1_000_000)
    decoder.call("short", short, beam_size=1)
    ends = {name: error for name, _, error in (decoder.next_answer(), decoder.next_answer())}
    assert ends["short"] is None
    assert "the deadline has passed" in str(ends["late"])
