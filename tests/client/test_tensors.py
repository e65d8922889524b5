import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tritongrpc
import tritonclient.grpc._utils as grpc_utils
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

from conch.client import tensors, triton_grpc, triton_http
from conch.client.endpoint import Endpoint
from conch.client.tensors import Audio, OptionArgument
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import (
    AudioError,
    ComponentError,
    ConchError,
    DeadlineError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    ServerError,
    ServerLostError,
    SessionError,
    UnreachableError,
    to_wire,
)
from conch.wire.known_speakers import known_speakers_of
from conch.wire.result import Hypothesis, Transcript

URL = "http://host:8000"


def build(
    *audios: Audio, timeout_s: float | None = None, **options: OptionArgument
) -> tensors.Request:
    return tensors.build(audios, 8000, timeout_s, "speech", "", options, default_timeout_s=60.0)


def test_waveforms_are_padded_to_the_longest() -> None:
    inputs = build(np.array([0.5], np.float32), np.array([0.1, -0.2, 0.3])).inputs
    assert {name: (array.dtype.name, array.shape) for name, array in inputs.items()} == {
        "WAV": ("float32", (2, 3)),
        "WAV_LENS": ("int32", (2, 1)),
        "SAMPLE_RATE": ("int32", (2, 1)),
    }
    expected = np.array([[0.5, 0, 0], [0.1, -0.2, 0.3]], np.float32)
    np.testing.assert_array_equal(inputs["WAV"], expected)
    assert inputs["WAV_LENS"].tolist() == [[1], [3]]
    assert inputs["SAMPLE_RATE"].tolist() == [[8000], [8000]]


def test_known_speakers_are_arrays_bytes_or_paths(tmp_path: Path) -> None:
    path = tmp_path / "ann.wav"
    path.write_bytes(b"RIFF")
    sound = np.array([3, 4], np.float32)
    samples = np.zeros(1, np.float32)
    ways: tuple[Any, ...] = (
        {"Ann": str(path), "Ben": sound, "Eve": b"RIFF"},
        [
            {"name": "Ann", "audio": path},
            {"name": "Ben", "embedding": [3.0, 4.0]},
            {"name": "Eve", "audio": b"RIFF"},
        ],
    )
    for known in ways:
        sent = build(samples, speakers="auto", known_speakers=known).parameters["known_speakers"]
        result = known_speakers_of(str(sent))
        assert [item.name for item in result] == ["Ann", "Ben", "Eve"]
        assert (result[0].audio, result[2].audio) == (b"RIFF", b"RIFF")
        np.testing.assert_allclose(np.array(result[1].embedding), [0.6, 0.8], atol=1e-6)
    with pytest.raises(AudioError, match="no such file"):
        build(samples, speakers="auto", known_speakers={"Ann": "none.wav"})


def test_16_bit_samples_travel_as_they_are() -> None:
    inputs = build(np.array([-32768], np.int16), np.array([1, -2, 32767], np.int16)).inputs
    assert {name: (array.dtype.name, array.shape) for name, array in inputs.items()} == {
        "PCM16": ("int16", (2, 3)),
        "WAV_LENS": ("int32", (2, 1)),
        "SAMPLE_RATE": ("int32", (2, 1)),
    }
    assert inputs["PCM16"].tolist() == [[-32768, 0, 0], [1, -2, 32767]]
    assert inputs["WAV_LENS"].tolist() == [[1], [3]]


@pytest.mark.parametrize(
    "other", [np.array([0.25], np.float32), np.array([0.25]), np.array([2**29], np.int32)]
)
def test_integers_in_other_company_are_scaled_to_full_scale_one(other: Audio) -> None:
    wav = build(np.array([-32768, 0, 16384], np.int16), other).inputs["WAV"]
    assert wav.dtype == np.float32
    assert wav.tolist() == [[-1.0, 0.0, 0.5], [0.25, 0.0, 0.0]]


def test_a_chunk_is_of_either_kind_or_empty() -> None:
    for dtype, name in ((np.int16, "PCM16"), (np.int32, "WAV"), (np.float32, "WAV")):
        inputs = tensors.chunk_tensors(np.zeros(3, dtype), 8000)
        assert inputs[name].shape == (1, 3)
        assert inputs["WAV_LENS"].tolist() == [[3]]
        empty = tensors.chunk_tensors(np.zeros(0, dtype), 8000)
        assert empty["PCM16"].tolist() == [[0]]
        assert empty["WAV_LENS"].tolist() == [[0]]


def test_files_travel_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF\0")
    inputs = build(path, str(path), b"fLaC\0\0").inputs
    assert list(inputs) == ["AUDIO"]
    assert inputs["AUDIO"].tolist() == [[b"RIFF\0"], [b"RIFF\0"], [b"fLaC\0\0"]]


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (np.zeros((2, 5)), r"shape \[N\]; sent: \[2, 5\]"),
        (np.zeros(0), "0 samples"),
        (np.zeros(5, np.uint8), "float, int16 or int32; sent: uint8"),
        (np.zeros(5, np.complex64), "sent: complex64"),
        (b"", "0 bytes"),
    ],
)
def test_audio_that_is_none(audio: Audio, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        build(audio)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing.wav", tmp_path / "empty.wav"
    empty.touch()
    for path, reason in ((missing, "no such file"), (tmp_path, "a folder"), (empty, "is empty")):
        with pytest.raises(AudioError, match=f"^{path}: .*{reason}"):
            build(path)


def test_a_batch_is_of_one_kind() -> None:
    with pytest.raises(AudioError, match="not both"):
        build(np.zeros(5), b"RIFF")
    with pytest.raises(AudioError, match="no audio"):
        build()


@pytest.mark.parametrize("rate", [0, -1, 2**31, 16000.0])
def test_sample_rates_that_no_int32_holds(rate: int) -> None:
    with pytest.raises(AudioError, match="sample_rate is a whole number"):
        tensors.tensors([np.zeros(5)], rate)


def test_only_given_options_travel_with_the_type_of_their_field() -> None:
    parameters = build(b"x", lm_weight=1, nbest=2, rescore=True, language="en").parameters
    assert parameters == {"lm_weight": 1.0, "nbest": 2, "rescore": True, "language": "en"}
    assert isinstance(parameters["lm_weight"], float)


def test_options_are_checked_before_files_are_read() -> None:
    with pytest.raises(OptionError, match="did you mean 'beam_size'"):
        build("no-such-file.wav", beam_sise=3)


def test_a_time_out_is_the_servers_deadline_too() -> None:
    assert build(b"x").parameters == {}
    assert build(b"x").timeout_s == 60.0
    assert build(b"x", timeout_s=2.5).parameters == {"deadline_ms": 2500}
    assert build(b"x", timeout_s=2.5).timeout_s == 2.5
    assert build(b"x", timeout_s=2.5, deadline_ms=10).parameters == {"deadline_ms": 10}
    with pytest.raises(OptionError, match="above 0"):
        build(b"x", timeout_s=0)


@pytest.mark.parametrize(
    ("http", "grpc", "message", "expected"),
    [
        ("400", "INVALID_ARGUMENT", "unexpected inference input", InvalidRequestError),
        ("503", "UNAVAILABLE", "Exceeds maximum queue size", OverloadedError),
        ("499", "CANCELLED", "request is cancelled", RequestCancelledError),
        ("500", "INTERNAL", "vad: out of memory", ComponentError),
        ("404", "NOT_FOUND", "unknown model: 'speech' is not found", ServerError),
        ("500", "INTERNAL", "Stub process 'speech_0_0' is not healthy.", ServerLostError),
        ("418", "UNKNOWN", "a teapot", ServerError),
        ("503", "UNAVAILABLE", "Server is stopping", tensors.UnavailableError),
    ],
)
def test_what_triton_itself_says_is_known_by_its_status(
    http: str, grpc: str, message: str, expected: type[ConchError]
) -> None:
    for code in (http, f"StatusCode.{grpc}"):
        error = tensors.error(code, message, URL)
        assert type(error) is expected
        assert message in str(error) or expected is tensors.UnavailableError


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("StatusCode.UNAVAILABLE", "Received http2 header with status: 503", "Unavailable"),
        ("502", "bad gateway", "Unreachable"),
        ("504", "late", "Unreachable"),
    ],
)
def test_a_proxy_without_a_server_is_known(code: str, message: str, expected: str) -> None:
    error = tensors.error(code, message, URL)
    assert type(error).__name__ == f"{expected}Error"
    assert message in str(error)


@pytest.mark.parametrize("code", ["400", "503", "500", "StatusCode.UNAVAILABLE", None])
def test_what_conch_says_is_known_by_its_code_whatever_carries_it(code: str | None) -> None:
    for sent in (OptionError("a reworded text"), DeadlineError("late"), SessionError("two\nlines")):
        error = tensors.error(code, to_wire(sent), URL)
        assert (type(error), str(error)) == (type(sent), str(sent))
    missing = tensors.error(code, to_wire(MissingModelError("load it", "vad")), URL)
    assert isinstance(missing, MissingModelError)
    assert (str(missing), missing.model) == ("load it", "vad")


@pytest.mark.parametrize(
    "message",
    ["Request for unknown model: 'x' is not found", "unexpected inference output 'RESULT'"],
)
def test_what_triton_says_inside_a_stream_has_no_status(message: str) -> None:
    error = tensors.error(None, message, URL)
    assert type(error) is ServerError
    assert message in str(error)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses", UnreachableError),
        ("UNAVAILABLE", "recvmsg:Connection reset by peer", ServerLostError),
        ("INTERNAL", "Received RST_STREAM with error code 2", ServerLostError),
        ("CANCELLED", "Received RST_STREAM with error code 8", ServerLostError),
        ("UNAVAILABLE", to_wire(OverloadedError("vad says: Connection reset")), OverloadedError),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", DeadlineError),
        ("INVALID_ARGUMENT", to_wire(AudioError("WAV is empty")), AudioError),
    ],
)
def test_what_grpc_itself_says(code: str, message: str, expected: type[ConchError]) -> None:
    endpoint = Endpoint.parse("grpc://host:8001")
    failure = SimpleNamespace(code=lambda: f"StatusCode.{code}", details=lambda: message)
    error = triton_grpc.grpc_failure(failure, build(b"x"), endpoint)
    assert type(error) is expected


@pytest.mark.parametrize(
    ("reason", "num_bytes", "had_request"),
    [
        ("recvmsg:Connection reset by peer", 1, True),
        ("Stream removed (sendmsg: Broken pipe (32))", 1, False),
        ("Stream removed (sendmsg: Broken pipe (32))", triton_grpc.LARGE_BYTES + 1, True),
    ],
)
def test_a_request_that_was_not_written_is_not_to_blame(
    reason: str, num_bytes: int, had_request: bool
) -> None:
    failure = SimpleNamespace(code=lambda: "StatusCode.UNAVAILABLE", details=lambda: reason)
    request = build(b"x" * num_bytes)
    error = triton_grpc.grpc_failure(failure, request, Endpoint.parse("grpc://host:8001"))
    assert isinstance(error, ServerLostError)
    assert error.had_request is had_request


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("failed to connect to all addresses; recvmsg: Connection reset by peer", "cannot reach"),
        ("[Errno 111] Connection refused", "cannot reach"),
        ("Stream removed (Socket closed)", "lost the connection"),
        ("[Errno 104] Connection reset by peer", "lost the connection"),
        ("Server disconnected", "lost the connection"),
        (
            "CERTIFICATE_VERIFY_FAILED",
            f"cannot reach a server at {URL}: CERTIFICATE_VERIFY_FAILED; --ca-cert",
        ),
    ],
)
def test_a_lost_connection_is_told_from_a_server_that_is_not_there(reason: str, said: str) -> None:
    assert str(tensors.unreachable(URL, reason)).startswith(said)


def test_a_server_that_stops_says_so_in_plain_words() -> None:
    said = "[request id: <id_unknown>] Server is stopping, scheduler for model has stopped"
    error = tensors.error("StatusCode.UNAVAILABLE", said, URL)
    assert type(error) is tensors.UnavailableError
    assert str(error) == f"{URL} is about to stop, and takes no more audio"


@pytest.mark.parametrize("shape", [(2, 1), (1, 1), (1,)])
async def test_transcripts_are_read_from_result(shape: tuple[int, ...]) -> None:
    """That of a live chunk may lack the dimension of the batch."""
    one = Transcript((Hypothesis("a", -1.0, -1.0),), (), 1.0, ("vad",), {})
    tensor = np.full(shape, one.to_json().encode(), np.object_)
    assert await tensors.transcripts(tensor, shape[0]) == [one] * shape[0]


@pytest.mark.parametrize(
    ("result", "rows"),
    [(None, 1), (np.empty((1, 2), np.object_), 1), (np.empty(2, np.object_), 2)],
)
async def test_a_model_without_result_is_not_the_speech_model(result: Any, rows: int) -> None:
    with pytest.raises(ServerError, match="RESULT"):
        await tensors.transcripts(result, rows)


def test_every_type_of_option_survives_both_protocols() -> None:
    options = {"lm_weight": 0.25, "nbest": 2, "rescore": True, "language": "en"}
    request = build(b"x", lm_weight=0.25, nbest=2, rescore=True, language="en")
    body, size = triton_http.body_of(request)
    header = json.loads(body[:size])
    assert header["parameters"] == options
    assert body[size:] == b"\x01\x00\x00\x00x"

    message = service_pb2.ModelInferRequest.FromString(triton_grpc.grpc_bytes(request))
    sent = {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in message.parameters.items()
    }
    assert sent == options


@pytest.mark.parametrize("position", [None, ChunkPosition("abc", starts=True, ends=False)])
@pytest.mark.parametrize(
    "audio",
    [
        b"RIFF\0",
        bytes(300),
        np.array([0.5, -0.25], np.float32),
        np.array([5, -2], np.int16),
        np.zeros(70_000, np.int16)[::2],
    ],
)
def test_the_bytes_of_a_request_are_those_of_tritonclients_message(
    audio: Any, position: ChunkPosition | None
) -> None:
    options: dict[str, Any] = {"lm_weight": 0.5, "nbest": 2, "vad": True, "language": "en"}
    request = replace(build(audio, **options), position=position, request_id="req_1")
    inputs = []
    for name, tensor in request.inputs.items():
        item = tritongrpc.InferInput(name, list(tensor.shape), np_to_triton_dtype(tensor.dtype))
        inputs.append(item.set_data_from_numpy(tensor))
    expected = grpc_utils._get_inference_request(
        request.model,
        inputs,
        model_version="",
        request_id=request.request_id,
        outputs=[tritongrpc.InferRequestedOutput("RESULT")],
        sequence_id=position.stream_id if position else 0,
        sequence_start=bool(position and position.starts),
        sequence_end=bool(position and position.ends),
        priority=0,
        timeout=None,
        parameters=dict(request.parameters),
    )
    result = service_pb2.ModelInferRequest.FromString(triton_grpc.grpc_bytes(request))
    assert result == expected


@pytest.mark.parametrize("size", [1, 2_500_000])
def test_a_stored_file_is_read_when_its_message_is_made(size: int) -> None:
    content = np.random.default_rng(size).bytes(size)

    class File(io.BytesIO):
        num_read = 0

        def read(self, size: int | None = -1) -> bytes:
            self.num_read += 1
            return super().read(size)

    file = File(content)
    request = build(tensors.StoredFile(file))
    assert (file.num_read, triton_grpc.size_of(request)) == (0, size)
    for _ in range(2):  # it may go to another server
        assert triton_grpc.grpc_bytes(request) == triton_grpc.grpc_bytes(build(content))
    with pytest.raises(AudioError, match="0 bytes"):
        build(tensors.StoredFile(io.BytesIO()))


def test_more_than_a_grpc_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_grpc, "GRPC_LIMIT", 10)
    with pytest.raises(AudioError, match="do not fit into one gRPC message"):
        triton_grpc.grpc_bytes(build(b"12345678901"))
