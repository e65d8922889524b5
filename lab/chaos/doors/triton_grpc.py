"""Triton's gRPC: messages whose tensors, shapes and parameters may be wrong, and mere bytes."""

import struct
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped]
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from lab.chaos.answers import NO_ANSWER, Answer
from lab.chaos.doors.target import PATIENCE_S, Target
from lab.chaos.doors.triton_http import INPUTS, TYPES, sequences
from lab.chaos.drawn import TEXTS, has_rows, options, samples, utf8

SERVICE = "/inference.GRPCInferenceService"


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A message to `ModelInfer`, or messages down one `ModelStreamInfer`."""

    messages: tuple[bytes, ...]
    is_streamed: bool = False

    async def send(self, target: Target) -> list[Answer]:
        """Send the messages; return an answer each, and for a stream of them one of all."""
        if self.is_streamed:
            return [await _streamed(target, self.messages)]
        return [await unary(target, message) for message in self.messages]


async def unary(target: Target, message: bytes, *, patience_s: float = PATIENCE_S) -> Answer:
    call = target.channel.unary_unary(f"{SERVICE}/ModelInfer")
    try:
        await call(message, timeout=patience_s)
    except grpc.aio.AioRpcError as error:
        return _answer(error)
    return Answer("OK")


async def _streamed(target: Target, messages: tuple[bytes, ...]) -> Answer:
    call = target.channel.stream_stream(
        f"{SERVICE}/ModelStreamInfer",
        response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
    )(iter(messages), timeout=PATIENCE_S)
    answer = Answer("OK")
    try:
        async for response in call:
            if response.error_message:
                # A streamed answer has no status: the text has the code.
                answer = Answer("streamed", response.error_message)
    except grpc.aio.AioRpcError as error:
        return _answer(error)
    if answer.status == "streamed":
        is_fault = answer.text.startswith(("INTERNAL", "COMPONENT_FAILED"))
        return Answer("INTERNAL" if is_fault else "INVALID_ARGUMENT", answer.text)
    return answer


def _answer(error: "grpc.aio.AioRpcError") -> Answer:
    status, text = error.code().name, str(error.details())
    is_late = status == "DEADLINE_EXCEEDED" and not text.startswith("DEADLINE_EXCEEDED:")
    return Answer(NO_ANSWER if is_late else status, text)


def message(
    model: str, tensors: dict[str, tuple[str, list[int], bytes]], parameters: dict[str, Any]
) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, (datatype, shape, data) in tensors.items():
        request.inputs.add(name=name, datatype=datatype, shape=[_int64(size) for size in shape])
        request.raw_input_contents.append(data)
    for name, value in parameters.items():
        slot = request.parameters[utf8(name)]
        if isinstance(value, bool):
            slot.bool_param = value
        elif isinstance(value, int) and abs(value) < 2**63:
            slot.int64_param = value
        elif isinstance(value, float):
            slot.double_param = value
        else:
            slot.string_param = utf8(str(value))
    return request


@st.composite
def grpc_calls(draw: st.DrawFn) -> GrpcCall:
    is_streamed = draw(st.integers(0, 3)) == 0
    count = draw(st.integers(1, 3)) if is_streamed else 1
    # Triton 24.10 aborts if a refused message is followed, down one stream, by one for a model that
    # does not exist.
    messages = [draw(_messages(is_streamed, can_be_lost=count == 1)) for _ in range(count)]
    return GrpcCall(tuple(messages), is_streamed)


@st.composite
def _messages(draw: st.DrawFn, is_streamed: bool, *, can_be_lost: bool) -> bytes:
    model = "speech_stream" if is_streamed else "speech"
    if can_be_lost and draw(st.integers(0, 9)) == 9:
        model = draw(st.sampled_from(["vad", "attention_decoder", "", "nothing", *TEXTS[4:6]]))
    data = draw(samples())
    raw = struct.pack(f"<{len(data)}f", *data)
    tensors = {"WAV": ("FP32", [1, len(data)], raw)}
    if draw(st.booleans()):
        name = draw(st.sampled_from([*INPUTS, "AUDIO", "OTHER"]))
        datatype = draw(st.sampled_from([INPUTS.get(name, "BYTES"), *TYPES]))
        sizes = st.one_of(st.integers(-2, 70), st.just(2**62))
        shape = draw(st.lists(sizes, max_size=4).filter(has_rows))
        tensors[name] = (datatype, shape, draw(st.binary(max_size=64)))
    request = message(model, tensors, draw(st.one_of(options(), sequences())))
    if draw(st.integers(0, 4)) == 0:
        request.inputs[0].contents.fp32_contents.extend(data[:10])
    if draw(st.integers(0, 4)) == 0:
        del request.raw_input_contents[0]
    if draw(st.integers(0, 4)) == 0:
        request.outputs.add(name=draw(st.sampled_from(["RESULT", "NOTHING", ""])))
    sent: bytes = request.SerializeToString(deterministic=True)
    if can_be_lost and draw(st.integers(0, 9)) == 9:
        return sent[: draw(st.integers(0, len(sent)))]
    if can_be_lost and draw(st.integers(0, 19)) == 19:
        return draw(st.binary(max_size=100))
    return sent


def _int64(size: int) -> int:
    return max(-(2**63), min(size, 2**63 - 1))
