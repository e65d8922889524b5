"""Cut a long recording at pauses, so that its pieces have the segments of the whole.

The server finds speech with a network whose memory lasts for minutes (Silero). Without that memory
a piece would be segmented differently. So the network runs over the whole recording here, and each
piece carries the memory at its start (the option `vad_state`). A piece begins at the end of a
segment, where the segmentation has no state of its own.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conch.audio.blocks import AudioBlocks
from conch.audio.recording import Channels, Recording, file_recording
from conch.audio.segmentation import Segmenter, SegmentRules, Span, segment_rules, text_of_state
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array, FloatArray
from conch.session.answers import shifted_segment
from conch.wire.options import RecognitionOptions
from conch.wire.parts import IMPROBABLE, speech_warnings, transcript_of
from conch.wire.result import Transcript, summed_stages

MAX_HOURS = 1000
"""Longest recording. The server's limit of a request is for pieces, which are short."""
MIN_PAUSE_S = 0.3
"""Shortest pause between two segments, beyond their padding, to cut in."""
LEAD_FRAMES = 94
"""Most silence in front of a piece, 3 s."""
KEPT_BLOCKS = 5
"""Blocks, of 33 s, that are kept: a segment is known at most a block and 32 s after its end."""

SpeechProbs = Callable[[FloatArray, FloatArray | None], tuple[FloatArray, FloatArray]]
"""The VAD: samples, and its state or None, to a probability per frame and the next state."""


@dataclass(frozen=True, slots=True)
class RequestPiece:
    """A stretch of a channel that is one request."""

    channel: int
    """Number of the channel, 0 if they are mixed."""
    start: int
    """First sample, of 16 kHz; a multiple of VAD_FRAME_SAMPLES."""
    end: int
    """Sample after the last."""
    vad_state: str = ""
    """The option of that name for its request; empty at the start of the recording."""


@dataclass(frozen=True, slots=True)
class CutRecording:
    """A long recording in pieces, and what its transcript says of the whole."""

    pieces: tuple[RequestPiece, ...]
    duration: float
    """Seconds."""
    channels: tuple[int, ...]
    warnings: tuple[str, ...]


def is_cuttable(options: RecognitionOptions) -> bool:
    """Return whether pieces give the text of the whole: no segment may depend on another."""
    # What hears the whole recording needs it in one request.
    needs_whole = options.value("speakers") != "off"
    return options.vad and not (options.lm_context or options.vad_state or needs_whole)


def cut(
    data: bytes, options: RecognitionOptions, speech_probs: SpeechProbs, piece_s: float
) -> CutRecording:
    """Return where to cut a recording that `is_cuttable`; without a good pause it stays whole."""
    recording = recording_of(data, options.channels)
    pieces: list[RequestPiece] = []
    for number, blocks in recording.channels.items():
        rules = segment_rules(options)
        pieces += _channel_pieces(number, blocks, rules, speech_probs, piece_s)
    channels = tuple(filter(None, recording.channels))
    return CutRecording(tuple(pieces), recording.duration, channels, recording.warnings)


def audio_of(
    data: bytes, options: RecognitionOptions, pieces: Sequence[RequestPiece]
) -> Iterator[tuple[RequestPiece, FloatArray]]:
    """Yield the samples of pieces, each channel's in order of time, as the server decodes them."""
    recording = recording_of(data, options.channels)
    for number, blocks in recording.channels.items():
        held, start = np.zeros(0, np.float32), 0
        for piece in (piece for piece in pieces if piece.channel == number):
            parts = [held[max(0, piece.start - start) :]]
            have = start + len(held)
            first = max(start, min(piece.start, have))
            while have < piece.end and (block := next(blocks, None)) is not None:
                parts.append(block[max(0, piece.start - have) :])
                first = max(first, min(piece.start, have + len(block)))
                have += len(block)
            held, start = np.concatenate(parts), first
            yield piece, held[: piece.end - start].copy()
            held, start = held[piece.end - start :], min(piece.end, have)


def joined(cut: CutRecording, parts: Sequence[Transcript], nbest: int) -> Transcript:
    """Return the transcript of a recording from those of its pieces, in order.

    It equals the answer to one request for the whole, except for the timings, and that the text of
    each piece may be improbable.
    """
    segments = [
        # A piece starts at a multiple of 32 ms, so times keep their milliseconds.
        replace(shifted_segment(segment, piece.start / SAMPLE_RATE, 0), channel=piece.channel)
        for piece, part in zip(cut.pieces, parts, strict=True)
        for segment in part.segments
    ]
    segments.sort(key=lambda segment: (segment.start, segment.channel))
    improbable = (text for part in parts for text in part.warnings if text.startswith(IMPROBABLE))
    path = tuple(dict.fromkeys(name for part in parts for name in part.path))
    return transcript_of(
        segments,
        nbest,
        duration=round(cut.duration, 3),
        path=path,
        stages=summed_stages(part.stages for part in parts),
        channels=cut.channels,
        warnings=(*cut.warnings, *speech_warnings(segments), *dict.fromkeys(improbable)),
    )


def recording_of(data: bytes, channels: Channels = "mix") -> Recording:
    return file_recording(data, MAX_HOURS * 3600.0, channels)


def _channel_pieces(
    number: int,
    blocks: AudioBlocks,
    rules: SegmentRules,
    speech_probs: SpeechProbs,
    piece_s: float,
) -> list[RequestPiece]:
    segmenter = Segmenter(rules)
    vad = _Vad(speech_probs)
    pieces: list[RequestPiece] = []
    start, vad_state = 0, ""
    spans: list[Span] = []
    for block in blocks:
        for span in segmenter.push(vad.append(block)):
            before = spans[-1] if spans else None
            spans.append(span)
            if before is None or before.end - start < piece_s * SAMPLE_RATE:
                continue
            if span.start - before.end >= MIN_PAUSE_S * SAMPLE_RATE:
                # Behind a long silence the end of the segment before it is no longer kept.
                end = max(before.end, span.start - LEAD_FRAMES * VAD_FRAME_SAMPLES)
                pieces.append(RequestPiece(number, start, end, vad_state))
                start, vad_state = end, text_of_state(vad.state_at(end))
    spans += segmenter.flush(blocks.num_samples)
    pieces.append(RequestPiece(number, start, blocks.num_samples, vad_state))
    probs = np.concatenate(vad.probs) if vad.probs else np.zeros(0, np.float32)
    if [span for piece in pieces for span in _spans_of(piece, probs, rules)] != spans:
        return [RequestPiece(number, 0, blocks.num_samples)]
    return pieces


def _spans_of(piece: RequestPiece, probs: FloatArray, rules: SegmentRules) -> list[Span]:
    """Return the segments that the server finds in a piece, in samples of the recording."""
    segmenter = Segmenter(rules)
    first, last = piece.start // VAD_FRAME_SAMPLES, -(-piece.end // VAD_FRAME_SAMPLES)
    spans = [*segmenter.push(probs[first:last]), *segmenter.flush(piece.end - piece.start)]
    return [Span(span.start + piece.start, span.end + piece.start) for span in spans]


class _Vad:
    """The VAD of one channel, with its memory at recent samples."""

    def __init__(self, speech_probs: SpeechProbs) -> None:
        self._speech_probs = speech_probs
        self.probs: list[FloatArray] = []
        self._state: FloatArray | None = None
        self._end = 0
        self._recent: deque[tuple[int, Array, FloatArray | None]] = deque(maxlen=KEPT_BLOCKS)
        """First sample, samples and memory before it, of the latest blocks."""

    def append(self, block: Array) -> FloatArray:
        self._recent.append((self._end, block, self._state))
        probs, self._state = self._speech_probs(block, self._state)
        self.probs.append(probs)
        self._end += len(block)
        return probs

    def state_at(self, sample: int) -> FloatArray:
        """Return the memory before a sample of the latest KEPT_BLOCKS, not the first sample."""
        start, block, state = next(item for item in reversed(self._recent) if item[0] < sample)
        _, state_after = self._speech_probs(block[: sample - start], state)
        return state_after
