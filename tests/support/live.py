"""A live stream over Triton's own clients, as any program would send it."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tritonclient.http as http


class Chunks:
    """One stream over a client of either kind."""

    def __init__(self, url: str, stream_id: int | str, kind: Any = http, **parameters: Any) -> None:
        self.kind, self.stream_id, self.parameters = kind, stream_id, parameters
        self.client = kind.InferenceServerClient(url)
        self.is_new = True

    def send(self, waveform: np.ndarray, *, ends: bool = False, zeros: int = 0) -> dict[str, Any]:
        """Send a chunk, padded with zeros; return RESULT."""
        answer = self.client.infer(
            "speech", self._inputs(waveform, zeros), parameters=self.parameters, **self._place(ends)
        )
        result: dict[str, Any] = json.loads(answer.as_numpy("RESULT").item())
        assert b" ".join(answer.as_numpy("TRANSCRIPTS")).decode() == result["text"]
        return result

    def start(self, waveform: np.ndarray, done: Callable[[Any, Any], None]) -> Any:
        """Send a chunk over gRPC without waiting; the call that is returned can be cancelled."""
        return self.client.async_infer(
            "speech", self._inputs(waveform, 0), done, parameters=self.parameters, **self._place()
        )

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
        """Send all of a waveform in chunks of so many samples; return the last RESULT."""
        for start in range(0, len(waveform), samples):
            ends = start + samples >= len(waveform)
            result = self.send(waveform[start : start + samples], ends=ends)
        self.client.close()
        return result

    def _inputs(self, waveform: np.ndarray, zeros: int) -> list[Any]:
        padded = np.pad(waveform.astype(np.float32), (0, zeros))[np.newaxis]
        wav = self.kind.InferInput("WAV", list(padded.shape), "FP32")
        wav.set_data_from_numpy(padded)
        lens = self.kind.InferInput("WAV_LENS", [1, 1], "INT32")
        lens.set_data_from_numpy(np.array([[len(waveform)]], np.int32))
        return [wav, lens]

    def _place(self, ends: bool = False) -> dict[str, Any]:
        starts, self.is_new = self.is_new, False
        return {
            "sequence_id": self.stream_id,
            "sequence_start": starts,
            "sequence_end": ends,
        }
