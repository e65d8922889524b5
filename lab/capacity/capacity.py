"""Estimate what a GPU server carries, from figures that you can replace by your own.

Nothing here was measured on a GPU. `INPUTS` says of each figure whether it was measured (by
`python -m lab cost --capacity`), published or assumed; the functions below it are all the
arithmetic. `lab/capacity/tables.py` writes the results.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

FRAMES_PER_S = 50
"""Encoder frames: 20 ms each, in Whisper and in the CTC model."""
N_MELS = 80


@dataclass(frozen=True, slots=True)
class Input:
    value: float
    unit: str
    source: str
    """Begins with measured, published, assumed, computed or set."""


INPUTS: Mapping[str, Input] = {
    "request": Input(7.18, "s of audio", "measured: mean of 96 utterances of the dev split"),
    "chunk": Input(0.64, "s of audio", "set: `chunk_ms`"),
    "features": Input(0.9, "CPU ms a request", "measured: log-mel of 7 s, one thread"),
    "chunk_features": Input(0.12, "CPU ms a chunk", "measured: log-mel of 640 ms, one thread"),
    "caches": Input(
        1.5, "CPU ms a chunk", "measured: 6.3 MB of a stream joined to a batch of 64 and cut again"
    ),
    "tensors": Input(1.0, "CPU ms a call", "assumed: tensors in and out of a process, and the GPU"),
    "search": Input(28, "steps a request", "assumed: 4 tokens per second of audio"),
    "step": Input(
        1.0, "ms a step", "assumed: 70 kernels and the host's decisions, a batch at once"
    ),
    "rows": Input(32, "rows a search", "set: `max_batch_size` of `attention_decoder`"),
    # https://github.com/mlcommons/inference_results_v3.1/blob/main/closed/Dell/systems/
    # XE9680_H100_SXM_80GBx8_TRT.json
    "cores": Input(13, "cores a GPU", "published: 2 x 52 for 8 H100 (MLPerf system, Dell XE9680)"),
    "load": Input(0.7, "of a core or process", "assumed: the rest is for peaks"),
    # https://www.nvidia.com/en-us/data-center/h100/, half of the figure with sparsity.
    "peak": Input(989, "TFLOPS", "published: H100 SXM, FP16 without sparsity (data sheet)"),
    # FastConformer CTC large (115 million weights) has an RTFx of 6,400 on an A100 of 312 TFLOPS
    # (https://huggingface.co/spaces/hf-audio/open_asr_leaderboard): 2 * 115e6 * 12.5 * 6400 = 18e12
    "use": Input(0.06, "of the peak", "computed from published figures: see above"),
}


def value(name: str) -> float:
    return INPUTS[name].value


@dataclass(frozen=True, slots=True)
class Stage:
    """A process of the server, in one kind of work."""

    process: str
    cpu_ms: float
    """Measured, for each request or chunk, all on the CPU."""
    core_ms: float
    """How long a core of the host is busy where the model computes on a GPU: with a request, a
    chunk, or a batch of them."""
    instances: float = 1
    """Processes of it, by the overlays; Triton itself has threads instead."""
    rows: float = 1
    """Requests that share `core_ms` at most: a batch."""

    @property
    def limit(self) -> float:
        """Return the requests or chunks per second of its processes with full batches."""
        return self.instances * self.rows * value("load") * 1000 / self.core_ms

    def host_ms(self, rate: float) -> float:
        """Return CPU ms for each of `rate` requests or chunks a second that a server gets."""
        arrivals = rate / self.instances * self.core_ms / 1000
        return self.core_ms / min(self.rows, mean_batch(arrivals))


def mean_batch(arrivals: float) -> float:
    """Return the mean batch of a process that takes whatever waits, or the next one to arrive.

    Requests come independently of each other (Poisson), on the mean `arrivals` while it works on a
    batch. So many are left to the next, and where there are none, with probability
    exp(-`arrivals`), the next has one.
    """
    return arrivals + math.exp(-arrivals)


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work: what a request or a chunk costs."""

    name: str
    audio_s: float
    stages: tuple[Stage, ...]
    flop: float
    """Of the encoder."""

    def rate_of_cores_alone(self) -> float:
        """Return requests or chunks a second that a GPU's share of cores does without it."""
        return _core_ms() / sum(item.cpu_ms for item in self.stages)

    def rate_of_cores(self, servers: int) -> float:
        """Return those for which the cores are enough next to the GPU, spread over `servers`."""
        rate = 0.0
        # The larger the rate, the larger the batches, the larger the rate: from below it rises to
        # the one that fits.
        for _ in range(100):
            rate = _core_ms() / sum(item.host_ms(rate / servers) for item in self.stages)
        return rate

    def rate_of_server(self) -> tuple[float, str]:
        """Return what one server's processes can do a second, and which of them is the limit."""
        slowest = min(self.stages, key=lambda item: item.limit)
        return slowest.limit, slowest.process

    def rate_of_gpu(self) -> float:
        """Return what the GPU's arithmetic allows for the encoder, a second."""
        return value("use") * value("peak") * 1e12 / self.flop

    def rate(self, servers: int) -> float:
        """Return requests or chunks per second of one GPU with its cores and `servers` servers."""
        limits = servers * self.rate_of_server()[0], self.rate_of_cores(servers), self.rate_of_gpu()
        return min(limits)

    def servers(self) -> int:
        """Return the best number of servers: more of them have smaller batches."""
        servers = 1
        while self.rate(servers + 1) > self.rate(servers):
            servers += 1
        return servers


def _core_ms() -> float:
    return value("cores") * value("load") * 1000


@dataclass(frozen=True, slots=True)
class Encoder:
    """A Whisper-shaped encoder (https://arxiv.org/abs/2212.04356, table 1)."""

    name: str
    size: int
    layers: int
    units: int = 0
    """Of a CTC output layer."""

    def frame_flop(self, keys: int) -> float:
        """Return floating-point operations of one frame that attends to `keys` frames.

        Two for each multiplication with its addition: four matrices of attention and two of four
        times the width in the feed-forward network make 12 `size`^2 a layer, scores and their
        weighted sum 2 `keys` `size`. The first convolution runs at twice the frame rate.
        """
        convolutions = 2 * 3 * N_MELS * self.size + 3 * self.size**2
        layer = 12 * self.size**2 + 2 * keys * self.size
        return 2 * (convolutions + self.layers * layer + self.size * self.units)

    def window_flop(self, seconds: float) -> float:
        """Return those of a window in which every frame attends to all."""
        frames = round(seconds * FRAMES_PER_S)
        return frames * self.frame_flop(frames)


TINY = Encoder("tiny", 384, 4)
CTC = Encoder("ctc-en", 512, 6, units=29)
ENCODERS = (
    TINY,
    Encoder("base", 512, 6),
    Encoder("small", 768, 12),
    Encoder("medium", 1024, 24),
    Encoder("large-v3", 1280, 32),
)
WINDOW_S = 15.0
"""The usual window of `attention_encoder`: its minimum."""
CHUNK_KEYS = 32 + 256
"""Frames that a frame of the streaming encoder sees: its chunk's and `left_ms` before."""


def works() -> tuple[Work, ...]:
    """Return the kinds of work, as measured by `lab cost --capacity` (medians of three)."""
    on_gpu = value("features") + value("tensors")
    search_ms = value("search") * value("step")
    triton = math.inf
    return (
        Work(
            "recordings, attention",
            value("request"),
            (
                Stage("speech", 4.4, 4.4),
                Stage("tritonserver", 4.2, 4.2, triton),
                Stage("vad", 8.5, 8.5, 8),
                Stage("attention_encoder", 69.3, on_gpu, 2),
                # Its thread waits for the GPU by asking it again and again.
                Stage("attention_decoder", 102.8, search_ms, 2, value("rows")),
            ),
            TINY.window_flop(WINDOW_S),
        ),
        Work(
            "recordings, graph",
            value("request"),
            (
                Stage("speech", 2.7, 2.7),
                Stage("tritonserver", 2.4, 2.4, triton),
                Stage("vad", 8.3, 8.3, 8),
                Stage("ctc_encoder", 66.7, on_gpu, 2),
                Stage("ctc_decoder", 8.1, 8.1, 2),
            ),
            CTC.window_flop(value("request")),
        ),
        Work(
            "live, graph",
            value("chunk"),
            (
                Stage("speech", 2.9, 2.9),
                Stage("tritonserver", 2.5, 2.5, triton),
                Stage("vad", 1.6, 1.6, 8),
                Stage(
                    "ctc_streaming_encoder",
                    8.7,
                    value("chunk_features") + value("caches") + value("tensors"),
                ),
                Stage("ctc_streaming_decoder", 3.2, 3.2),
            ),
            round(value("chunk") * FRAMES_PER_S) * CTC.frame_flop(CHUNK_KEYS),
        ),
    )
