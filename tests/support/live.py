"""A live stream over Triton's own clients, as any program would send it."""

import json
import queue
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tritonclient.http as http
from infer_inputs import inputs_of

TIMEOUT_S = 120.0


class Chunks:
    """One stream over a client of either kind."""

    def __init__(self, url: str, stream_id: int | str, kind: Any = http, **parameters: Any) -> None:
        self.kind, self.stream_id, self.parameters = kind, stream_id, parameters
        patience = {"network_timeout": TIMEOUT_S} if kind is http else {}
        self.client = kind.InferenceServerClient(url, **patience)
        self.is_new = True

    def send(
        self,
        waveform: np.ndarray,
        *,
        ends: bool = False,
        zeros: int = 0,
        sample_rate: int | None = None,
    ) -> dict[str, Any]:
        """Send a chunk, padded with zeros; return RESULT."""
        inputs = self._inputs(waveform, zeros)
        if sample_rate is not None:
            inputs += inputs_of(self.kind, SAMPLE_RATE=np.array([[sample_rate]], np.int32))
        answer = self.client.infer(
            "speech",
            inputs,
            parameters=self.parameters,
            **self._place(ends),
            **({} if self.kind is http else {"client_timeout": TIMEOUT_S}),
        )
        result: dict[str, Any] = json.loads(answer.as_numpy("RESULT").item())
        assert b" ".join(answer.as_numpy("TRANSCRIPTS")).decode() == result["text"]
        return result

    def start(self, waveform: np.ndarray, done: Callable[[Any, Any], None]) -> Any:
        """Send a chunk over gRPC without waiting; the call that is returned can be cancelled."""
        return self.client.async_infer(
            "speech", self._inputs(waveform, 0), done, parameters=self.parameters, **self._place()
        )

    def send_unwaited(self, pieces: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Send chunks down a gRPC stream, the last with END, and only then read the answers."""
        answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        for number, piece in enumerate(pieces, 1):
            self.client.async_stream_infer(
                "speech",
                self._inputs(piece, 0),
                parameters=self.parameters,
                **self._place(number == len(pieces)),
            )
        found = []
        for _ in pieces:
            result, error = answers.get(timeout=TIMEOUT_S)
            assert error is None, error
            found.append(json.loads(result.as_numpy("RESULT").item()))
        self.client.stop_stream()
        return found

    def request(self, waveform: np.ndarray) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a chunk's HTTP request."""
        place = self._place()
        body, json_size = http.InferenceServerClient.generate_request_body(
            self._inputs(waveform, 0), parameters=self.parameters, **place
        )
        headers = {"Content-Length": str(len(body))}
        if json_size is not None:
            headers["Inference-Header-Content-Length"] = str(json_size)
        return body, headers

    def send_all(self, waveform: np.ndarray, samples: int) -> dict[str, Any]:
        """Send a waveform in chunks of equal length; return the last RESULT."""
        for start in range(0, len(waveform), samples):
            ends = start + samples >= len(waveform)
            result = self.send(waveform[start : start + samples], ends=ends)
        self.client.close()
        return result

    def _inputs(self, waveform: np.ndarray, zeros: int) -> list[Any]:
        padded = np.pad(waveform.astype(np.float32), (0, zeros))[np.newaxis]
        return inputs_of(self.kind, WAV=padded, WAV_LENS=np.array([[len(waveform)]], np.int32))

    def _place(self, ends: bool = False) -> dict[str, Any]:
        starts, self.is_new = self.is_new, False
        return {
            "sequence_id": self.stream_id,
            "sequence_start": starts,
            "sequence_end": ends,
        }
