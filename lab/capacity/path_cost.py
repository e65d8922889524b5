"""What a live chunk costs the orchestrator itself: its path over components that answer at once.

    python -m lab.capacity.path_cost

Prints CPU milliseconds for a chunk: of the path alone, and with its three calls handed to threads
as in `speech`; one chunk right after the other, and with pauses between them. Run it beside other
work: on a server the components take caches and cores in the pauses. What `conch bench live`
finds for the process of `speech` beyond these is Triton's.
"""

import asyncio
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from conch.bls.call import Call, Outputs, Tensor
from conch.bls.runtime import Runtime
from conch.component import Array
from conch.component.waveform import VAD_FRAME_SAMPLES
from conch.recognition.config import RecognitionConfig
from conch.recognition.recognizer import Recognizer
from conch.recognition.request import SpeechRequest
from conch.recognition.service import own_components
from lab.orchestration.component_queues import HostTensor

STREAMS, CHUNKS, RUNS = 16, 400, 5
PAUSES_S = (0.0, 0.02)
CHUNK_SAMPLES = 10_240
"""640 ms."""
WORDS = [b"we", b"are", b"heard", b"without", b"a", b"word", b"being", b"said"]


OUTPUTS: Mapping[str, Mapping[str, Array]] = {
    "vad": {
        "speech_probs": np.full(CHUNK_SAMPLES // VAD_FRAME_SAMPLES, 0.9, np.float32),
        "state": np.zeros((2, 1, 128), np.float32),
    },
    "ctc_streaming_encoder": {
        "log_probs": np.zeros((32, 29), np.float32),
        "log_probs_lens": np.array([32], np.int32),
    },
    "ctc_streaming_decoder": {
        "hypotheses": np.array([b" ".join(WORDS)], np.object_),
        "scores": np.array([-4.0], np.float32),
        "am_scores": np.array([-4.0], np.float32),
        "lm_scores": np.zeros(1, np.float32),
        "num_words": np.array([len(WORDS)], np.int32),
        "words": np.array(WORDS, np.object_),
        "word_starts": np.arange(len(WORDS), dtype=np.float32),
        "word_ends": np.arange(len(WORDS), dtype=np.float32) + 0.5,
        "word_confidences": np.full(len(WORDS), 0.9, np.float32),
        "stable": np.array([b" ".join(WORDS[:4])], np.object_),
    },
}
ANSWERS: Mapping[str, Mapping[str, Tensor]] = {
    model: {name: HostTensor(array) for name, array in outputs.items()}
    for model, outputs in OUTPUTS.items()
}


class InstantComponents:
    """Components that know the answer; asked in threads, if there are any."""

    def __init__(self, threads: Executor | None) -> None:
        """Take the threads."""
        self._threads = threads

    async def call(self, call: Call) -> Outputs:
        """See `conch.bls.call.Components.call`."""
        if self._threads is None:
            return ANSWERS[call.model]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, ANSWERS.__getitem__, call.model)

    async def is_loaded(self, model: str) -> bool:
        """See `conch.bls.call.Components.is_loaded`."""
        return model in ANSWERS


def chunk(stream: int, *, starts: bool) -> SpeechRequest:
    """Return a chunk of one of the streams."""
    return SpeechRequest(
        wav=np.zeros((1, CHUNK_SAMPLES), np.float32),
        parameters={},
        stream_id=1 + stream,
        starts=starts,
    )


async def cost_ms(threads: Executor | None, pause_s: float) -> float:
    """Return CPU milliseconds for a chunk, its result as JSON included."""
    components = InstantComponents(threads)
    config = RecognitionConfig()
    recognizer = Recognizer(config, Runtime(config, own_components(), components))
    for stream in range(STREAMS):
        await recognizer.recognize(chunk(stream, starts=True), components)
    started = time.process_time()
    for index in range(CHUNKS):
        request = chunk(index % STREAMS, starts=False)
        (transcript,) = await recognizer.recognize(request, components)
        transcript.to_json()
        time.sleep(pause_s)
    used_s = time.process_time() - started
    await recognizer.open_streams.close(timeout_s=1)
    return 1000 * used_s / CHUNKS


def main() -> None:
    """Measure in turns and print the medians."""
    with ThreadPoolExecutor(STREAMS) as pool:
        ways = {
            f"{name}, {1000 * pause_s:g} ms between chunks": (threads, pause_s)
            for pause_s in PAUSES_S
            for name, threads in (("the path", None), ("in threads", pool))
        }
        runs = [[asyncio.run(cost_ms(*way)) for way in ways.values()] for _ in range(RUNS)]
    for name, found in zip(ways, zip(*runs, strict=True), strict=True):
        print(f"{name:34} {statistics.median(found):.2f} ms of CPU")


if __name__ == "__main__":
    main()
