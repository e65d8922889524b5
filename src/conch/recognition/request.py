"""A request to an entry point: check it, and open the audio of its rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from conch.audio.recording import (
    Recording,
    as_floats,
    file_recording,
    tensor_of,
    waveform_recording,
)
from conch.bls.service import RequestHeader
from conch.component import SAMPLE_RATE, Array, FloatArray
from conch.wire.errors import (
    AudioError,
    DeadlineError,
    InvalidRequestError,
    MissingModelError,
    TranscriptionError,
)
from conch.wire.options import RecognitionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionRequest(RequestHeader):
    """A request with its tensors, which have the batch dimension first."""

    wav: Array | None = None
    """FP32 [rows, samples]: mono in [-1, 1], rows padded at the end."""
    pcm16: Array | None = None
    """INT16 [rows, samples], in place of `wav`: -32768 is -1 there."""
    wav_lens: Array | None = None
    """INT32 [rows, 1]: valid samples of each row; None when all count."""
    sample_rate: Array | None = None
    """INT32 [rows, 1]: Hz; None for 16 kHz."""
    audio: Array | None = None
    """BYTES [rows, 1]: an encoded audio file per row, in place of `wav`."""

    def check(self) -> None:
        """Check that the tensors go together."""
        sent = self._audio_sent()
        if len(sent) != 1:
            raise AudioError(
                "send one of WAV (samples), PCM16 (16-bit samples) and AUDIO (an encoded file); "
                f"sent: {' and '.join(sent) or 'none'}"
            )
        if self.num_rows == 0:
            raise AudioError(f"{sent[0]} takes at least one row; sent: shape [0, …]")
        if self.audio is not None and (self.wav_lens is not None or self.sample_rate is not None):
            raise AudioError("WAV_LENS and SAMPLE_RATE go with WAV and PCM16; AUDIO has its own")

    def rows(self, options: RecognitionOptions, max_audio_s: float) -> list[Recording]:
        """Open the audio of each row. Files may take a while; see `file_recording`."""
        recordings = []
        for row in range(self.num_rows):
            with naming_row(row, self.num_rows):
                recordings.append(self._row(row, options, max_audio_s))
        return recordings

    def chunk(self) -> FloatArray:
        """Return the samples of a live chunk, FP32 [samples], possibly empty."""
        sent = self._audio_sent()
        samples = self._samples
        if samples is None or len(sent) != 1:
            raise AudioError(
                "a chunk of a stream is sent as WAV (samples) or PCM16 (16-bit samples); "
                f"sent: {' and '.join(sent) or 'neither'}"
            )
        if len(samples) != 1:
            raise AudioError(f"a chunk of a stream has one row; sent: {len(samples)}")
        if self.wav_lens is not None and int(self.wav_lens[0].item()) == 0:
            return as_floats(samples[0, :0])
        return as_floats(self._valid(samples[0], 0))

    @property
    def repeats_text(self) -> bool:
        """Whether the answer to a live chunk repeats text: the client asks for TRANSCRIPTS."""
        return "TRANSCRIPTS" in self.outputs

    @property
    def sample_rate_sent(self) -> int | None:
        """Sample rate in Hz, or None if the request has none."""
        if self.sample_rate is None or len(self.sample_rate) == 0:
            return None
        return int(self.sample_rate[0].item())

    @property
    def num_rows(self) -> int:
        rows = self.audio if self._samples is None else self._samples
        return 0 if rows is None else len(rows)

    @property
    def chunk_samples(self) -> int:
        """Number of samples of a live chunk, 0 if it has none."""
        return 0 if self._samples is None else int(self._samples.size)

    @property
    def num_bytes(self) -> int:
        """Bytes of audio in all rows, and of the texts of options, which may hold audio too."""
        texts = sum(len(text) for text in self.parameters.values() if isinstance(text, str))
        if self._samples is not None:
            return self._samples.nbytes + texts
        files = [] if self.audio is None else self.audio.ravel().tolist()
        return sum(len(file) for file in files if isinstance(file, bytes)) + texts

    @property
    def _samples(self) -> Array | None:
        return self.pcm16 if self.wav is None else self.wav

    def _audio_sent(self) -> list[str]:
        tensors = {"WAV": self.wav, "PCM16": self.pcm16, "AUDIO": self.audio}
        return [name for name, tensor in tensors.items() if tensor is not None]

    def _row(self, row: int, options: RecognitionOptions, max_audio_s: float) -> Recording:
        samples = self._samples
        if samples is None:
            assert self.audio is not None
            data = _bytes(self.audio[row].item())
            return file_recording(data, max_audio_s, options.channels)
        waveform = self._valid(samples[row], row)
        rate = SAMPLE_RATE if self.sample_rate is None else int(self.sample_rate[row].item())
        return waveform_recording(waveform, rate, max_audio_s, options.channels)

    def _valid(self, waveform: Array, row: int) -> Array:
        if self.wav_lens is None:
            return waveform
        length = int(self.wav_lens[row].item())
        if not 1 <= length <= len(waveform):
            raise AudioError(
                f"WAV_LENS takes 1 to the samples in {tensor_of(waveform)} ({len(waveform)}); "
                f"sent: {length}"
            )
        return waveform[:length]


@contextmanager
def naming_row(row: int, num_rows: int) -> Iterator[None]:
    """Add the row to the message of an error in the block, if the batch has several rows."""
    try:
        yield
    except TranscriptionError as error:
        is_of_all = isinstance(error, DeadlineError | MissingModelError)
        if num_rows == 1 or is_of_all:
            raise
        raise type(error)(f"row {row} of {num_rows}: {error}") from None


def _bytes(item: Any) -> bytes:
    if not isinstance(item, bytes):
        raise InvalidRequestError(f"AUDIO takes bytes; sent: {type(item).__name__}")
    return item
