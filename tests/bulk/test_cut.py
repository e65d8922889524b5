"""Pieces of a long recording are segmented as the whole is, whatever the VAD remembers."""

from dataclasses import replace

import numpy as np
import pytest
from audio_files import audio_file

from conch.audio.recording import file_recording
from conch.audio.segmentation import Segmenter, Span, segment_rules, state_of
from conch.bulk.cut import CutRecording, RequestPiece, audio_of, cut, is_cuttable, joined
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, VAD_STATE_SIZE
from conch.session.answers import shifted_segment
from conch.wire.options import RecognitionOptions
from conch.wire.parts import IMPROBABLE
from conch.wire.result import Hypothesis, Segment, Stage, Transcript, Unrecognised, Word

OPTIONS = RecognitionOptions.parse({})


def heard(samples, state):
    """A VAD whose memory fades slowly: the loudness of a frame, mixed with what was before."""
    memory = 0.0 if state is None else float(state[0])
    probs = []
    padded = np.pad(samples, (0, -len(samples) % VAD_FRAME_SAMPLES))
    for frame in padded.reshape(-1, VAD_FRAME_SAMPLES):
        memory = np.float32(0.98 * memory + 0.02 * float(np.abs(frame).mean() * 4))
        probs.append(min(1.0, 0.75 * float(np.abs(frame).mean() * 6) + 0.25 * memory))
    return np.array(probs, np.float32), np.full(VAD_STATE_SIZE, memory, np.float32)


def recording(seed: int, seconds: float = 90.0, channels: int = 1) -> bytes:
    """Return a file of bursts and pauses of all lengths."""
    random = np.random.default_rng(seed)
    samples = []
    for _ in range(channels):
        parts: list = []
        while sum(map(len, parts)) < seconds * SAMPLE_RATE:
            loud = random.choice([0.4, 0.15, 0.05, 0.002])
            length = int(random.exponential(2.0) * SAMPLE_RATE) + 1
            parts.append(random.uniform(-loud, loud, length))
        samples.append(np.concatenate(parts)[: int(seconds * SAMPLE_RATE)])
    return audio_file(np.stack(samples, axis=1), SAMPLE_RATE, "FLOAT")


def spans(probs, num_samples: int) -> list[Span]:
    segmenter = Segmenter(segment_rules(OPTIONS))
    return [*segmenter.push(probs), *segmenter.flush(num_samples)]


@pytest.mark.parametrize("seed", range(3))
def test_pieces_have_the_segments_of_the_whole(seed: int) -> None:
    data = recording(seed)
    result = cut(data, OPTIONS, heard, piece_s=10)
    (blocks,) = file_recording(data, 1e6).channels.values()
    whole = np.concatenate(list(blocks))
    expected = spans(heard(whole, None)[0], len(whole))
    assert len(result.pieces) > 2
    sent = list(audio_of(data, OPTIONS, result.pieces))
    assert [piece for piece, _ in sent] == list(result.pieces)
    assert np.array_equal(np.concatenate([samples for _, samples in sent]), whole)
    in_pieces = []
    for piece, samples in sent:
        assert len(samples) == piece.end - piece.start
        state = state_of(RecognitionOptions.parse({"vad_state": piece.vad_state}))
        for span in spans(heard(samples, state)[0], len(samples)):
            in_pieces.append(Span(span.start + piece.start, span.end + piece.start))
    assert in_pieces == expected


def test_without_the_memory_some_segments_would_differ() -> None:
    different = 0
    for seed in range(3):
        data = recording(seed)
        result = cut(data, OPTIONS, heard, piece_s=10)
        for piece, samples in audio_of(data, OPTIONS, result.pieces):
            state = state_of(RecognitionOptions.parse({"vad_state": piece.vad_state}))
            alone, as_before = (heard(samples, known)[0] for known in (None, state))
            different += spans(alone, len(samples)) != spans(as_before, len(samples))
    assert different > 0


def test_a_recording_without_a_pause_stays_whole() -> None:
    file = audio_file(np.full(60 * SAMPLE_RATE, 0.4), SAMPLE_RATE)
    (piece,) = cut(file, OPTIONS, heard, piece_s=10).pieces
    assert piece == RequestPiece(0, 0, 60 * SAMPLE_RATE)


def test_each_channel_is_cut_by_itself() -> None:
    data = recording(1, 60.0, channels=2)
    options = RecognitionOptions.parse({"channels": "split"})
    result = cut(data, options, heard, piece_s=10)
    assert result.channels == (1, 2)
    assert {piece.channel for piece in result.pieces} == {1, 2}
    for number in (1, 2):
        own = [
            samples
            for piece, samples in audio_of(data, options, result.pieces)
            if piece.channel == number
        ]
        assert sum(map(len, own)) == 60 * SAMPLE_RATE


def test_what_lets_segments_know_each_other_is_not_cut() -> None:
    def parsed(**options):
        return RecognitionOptions.parse(options)

    assert is_cuttable(parsed(accuracy="best"))
    assert not is_cuttable(parsed(vad=False))
    assert not is_cuttable(parsed(rescore=True, lm_context=True))
    assert not is_cuttable(parsed(speakers="auto"))


def segment(start: float, text: str) -> Segment:
    best = Hypothesis(text=text, score=-1.0, am_score=-1.0)
    word = Word(text, start, start + 0.5, 0.9)
    return Segment(start, start + 1.0, (best,), (word,), (Unrecognised(start, start + 0.2),))


def transcript(*segments: Segment) -> Transcript:
    return Transcript(
        nbest=(Hypothesis(text="", score=0.0, am_score=0.0),),
        segments=segments,
        duration=20.0,
        path=("vad",),
        stages={"vad": Stage(1, 2.5)},
        warnings=("of the piece",),
    )


def test_pieces_are_joined_in_order_of_time_and_channel() -> None:
    frames = 640000
    pieces = (
        RequestPiece(1, 0, frames),
        RequestPiece(1, frames, 2 * frames),
        RequestPiece(2, 0, 2 * frames),
    )
    parts = [
        transcript(segment(1.0, "one")),
        transcript(segment(0.123, "three")),
        transcript(segment(2.0, "two")),
    ]
    message = f"{IMPROBABLE}, and may be invented"
    parts[1:] = [replace(part, warnings=(message,)) for part in parts[1:]]
    whole = CutRecording(pieces, 80.0, (1, 2), ("of the whole",))
    result = joined(whole, parts, nbest=1)
    assert result.text == "one two three"
    assert [(item.start, item.channel) for item in result.segments] == [
        (1.0, 1),
        (2.0, 2),
        (40.123, 1),
    ]
    assert result.words[2] == Word("three", 40.123, 40.623, 0.9)
    assert [channel.text for channel in result.channels] == ["one three", "two"]
    assert result.duration == 80.0
    assert result.stages["vad"] == Stage(3, 7.5)
    assert (result.warnings[0], result.warnings[-1]) == ("of the whole", message)
    assert result.warnings.count(message) == 1
    assert "of the piece" not in result.warnings


def test_a_time_keeps_its_milliseconds() -> None:
    for frame in range(0, 4_000_000, 31_250):
        moved = shifted_segment(segment(0.001, "x"), frame * 0.032, 0)
        assert moved.start == round(frame * 32 + 1) / 1000
