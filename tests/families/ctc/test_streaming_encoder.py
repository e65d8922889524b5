"""Streams in pieces against the masked full pass of the model that the graph was exported from."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from recordings import Recording
from waiting import wait_until

from conch.component import VAD_FRAME_SAMPLES, Row
from conch.families.ctc.encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.families.silero.vad import SileroConfig, SileroVad
from conch.wire.errors import AudioError, ConfigError, SessionError
from lab.training.ctc.scoring import log_probs_of

LEFT_MS = 1_000


def opened(path="", chunk_ms=640, **settings) -> CtcStreamingEncoder:
    config = CtcStreamingEncoderConfig(
        model=str(path), chunk_ms=chunk_ms, left_ms=LEFT_MS, intra_threads=2, **settings
    )
    return CtcStreamingEncoder(config)


@pytest.fixture(scope="module")
def graph(exported_ctc):
    return exported_ctc[1]


@pytest.fixture
def encoder(graph):
    component = opened(graph)
    yield component
    component.close()


def row(stream_id, waveform, *flags) -> Row:
    return Row({"waveform": waveform}, {}, stream_id, "start" in flags, "end" in flags)


def pieces(waveform: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """A waveform cut anywhere, empty pieces included."""
    cuts = np.sort(rng.integers(0, len(waveform) + 1, size=rng.integers(0, 12)))
    return np.split(waveform, cuts)


def flags_of(index: int, count: int) -> list[str]:
    return ["start"] * (index == 0) + ["end"] * (index == count - 1)


def streamed(encoder, waveforms, rng) -> list[np.ndarray]:
    """Log probabilities of streams that begin, go on and end at different times, batch by batch."""
    todo = {index: pieces(waveform, rng) for index, waveform in enumerate(waveforms)}
    counts = {index: len(parts) for index, parts in todo.items()}
    found: dict[int, list[np.ndarray]] = {index: [] for index in todo}
    while todo:
        chosen = [index for index in todo if rng.random() < 0.6]
        batch = []
        for index in chosen:
            place = counts[index] - len(todo[index])
            batch.append(row(f"s{index}", todo[index].pop(0), *flags_of(place, counts[index])))
        for index, answer in zip(chosen, encoder(batch), strict=True):
            assert answer["log_probs_lens"] == len(answer["log_probs"])
            assert answer["behind_samples"] >= 0
            found[index].append(answer["log_probs"])
            if not todo[index]:
                del todo[index]
    assert len(encoder) == 0
    return [np.concatenate(found[index]) for index in range(len(waveforms))]


@pytest.mark.parametrize("chunk_ms", [160, 640])
def test_equals_the_masked_full_pass_of_the_training_code(exported_ctc, speech, chunk_ms):
    model, path = exported_ctc
    waveforms = [item.waveform() for item in speech]
    waveforms += [waveforms[0][:1], waveforms[1][:10_240], waveforms[2][:10_241]]
    with torch.inference_mode():
        expected = log_probs_of(
            model, waveforms, chunk_frames=chunk_ms // 20, left_frames=LEFT_MS // 20
        )
    encoder = opened(path, chunk_ms)
    for found, wanted in zip(
        streamed(encoder, waveforms, np.random.default_rng(chunk_ms)), expected, strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
    encoder.close()


def test_a_stream_of_any_length_takes_constant_memory(encoder, speech):
    """Two minutes, far beyond the 41 s after which positions repeat."""
    waveform = np.concatenate([item.waveform() for item in speech])[: 20 * 16_000]
    (first,) = encoder([row(1, waveform, "start")])
    stream = encoder._streams.take(1, starts=False, ends=False)

    def held_bytes() -> int:
        return sum(item.nbytes for item in (stream._waveform, *stream.caches))

    held = held_bytes()
    lengths = [len(first["log_probs"])]
    for _ in range(5):
        (answer,) = encoder([row(1, waveform)])
        lengths.append(len(answer["log_probs"]))
        assert np.isfinite(answer["log_probs"]).all()
        assert held_bytes() <= held + 4 * 10_240
    assert abs(sum(lengths) * 320 - 6 * len(waveform)) <= 10_240


def test_what_many_streams_took_is_given_back_when_they_end():
    """In a process of its own, because an allocator hands on what other tests have freed."""
    code = """
import ctypes
import numpy as np, psutil
from conch.component import Row
from conch.families.ctc.encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig

def row(stream, flags):
    samples = np.zeros(0 if flags.get("ends") else 10_640, np.float32)
    return Row({"waveform": samples}, stream_id=stream, **flags)

def held():
    ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_full_info().uss / 1e6

encoder = CtcStreamingEncoder(CtcStreamingEncoderConfig(intra_threads=1))
encoder([row(0, {"starts": True})])
encoder([row(0, {"ends": True})])
amounts = [held()]
for flags in ({"starts": True}, {"ends": True}):
    for stream in range(40):
        encoder([row(stream, flags)])
    amounts.append(held())
encoder.close()
print(*amounts)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    before, during, after = map(float, done.stdout.split())
    assert during > before + 40 * 6
    assert after < before + 30


def test_hears_speech_where_the_vad_does(speech):
    """The weights that ship, on recordings with silence around them."""
    encoder, vad = opened(), SileroVad(SileroConfig())
    silence = np.zeros(24_000, np.float32)
    for item in speech:
        waveform = np.concatenate([silence, item.waveform(), silence])
        (found,) = encoder([row(1, waveform, "start", "end")])
        assert found["speech_probs"].shape == (len(found["log_probs"]),)
        assert found["speech_probs"].min() >= -1e-6
        detected = np.flatnonzero(found["speech_probs"] >= 0.5) * found["frame_samples"].item()
        (expected,) = vad([row(1, waveform)])
        spoken = np.flatnonzero(expected["speech_probs"] >= 0.5) * VAD_FRAME_SAMPLES
        # A letter comes a little after its sound has begun, the last one before it has faded.
        assert spoken[0] - 0.2 * 16_000 <= detected[0] <= spoken[0] + 0.5 * 16_000
        assert spoken[-1] - 0.7 * 16_000 <= detected[-1] <= spoken[-1] + 0.2 * 16_000
    encoder.close()


def test_one_bad_chunk_fails_alone_and_its_stream_goes_on(encoder, speech: list[Recording]):
    waveform = speech[0].waveform()[:30_720]
    bad = waveform[:5_000].copy()
    bad[17] = np.nan
    expected, _ = encoder([row(1, waveform, "start", "end"), row(2, waveform, "start")])
    failed, unknown, whole = encoder([row(2, bad), row(3, waveform), row(4, waveform, "start")])
    assert isinstance(failed, AudioError)
    assert "not finite" in str(failed)
    assert isinstance(unknown, SessionError)
    assert str(unknown) == "stream 3 is expired or unknown; send START"
    np.testing.assert_allclose(whole["log_probs"], expected["log_probs"], rtol=0, atol=1e-3)
    (ended,) = encoder([row(2, waveform[:0], "end")])
    assert ended["log_probs"].shape == (0, 29)
    assert len(encoder) == 1


def test_a_defect_ends_its_stream_and_no_other_of_the_batch(encoder, speech):
    waveform = speech[0].waveform()[:30_720]
    expected, _ = encoder([row(1, waveform, "start", "end"), row(2, waveform, "start")])
    unreadable = Row({}, {}, 2, False, False)
    failed, whole = encoder([unreadable, row(1, waveform, "start", "end")])
    assert isinstance(failed, KeyError)
    np.testing.assert_allclose(whole["log_probs"], expected["log_probs"], rtol=0, atol=1e-3)
    (closed,) = encoder([row(2, waveform)])
    assert isinstance(closed, SessionError)
    assert len(encoder) == 0


def test_a_chunk_is_two_minutes_at_most_and_its_stream_goes_on(encoder):
    too_long = np.zeros(120 * 16_000 + 1, np.float32)
    opened_now = row(5, too_long[:100], "start")
    _, refused = encoder([opened_now, row(5, too_long)])
    (last,) = encoder([row(5, too_long[:0], "end")])
    assert isinstance(refused, AudioError)
    assert str(refused).startswith("input 'waveform' takes at most 120 s of audio; sent: 120")
    assert last["log_probs_lens"].item() == 1


def test_a_second_start_begins_again(encoder, speech):
    waveform = speech[1].waveform()[:20_480]
    (expected,) = encoder([row(1, waveform, "start", "end")])
    encoder([row(1, waveform[:15_000], "start")])
    (found,) = encoder([row(1, waveform, "start")])
    np.testing.assert_array_equal(found["log_probs"], expected["log_probs"])
    assert len(encoder) == 1


def test_an_abandoned_stream_expires_by_itself(graph, speech):
    encoder = opened(graph, stream_ttl_s=2)
    encoder([row("gone", speech[0].waveform(), "start")])
    assert len(encoder) == 1
    wait_until(lambda: len(encoder) == 0, 10)
    (late,) = encoder([row("gone", speech[0].waveform())])
    assert isinstance(late, SessionError)
    encoder.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunk_ms": 0}, "chunk_ms takes a multiple of 20; is: 0"),
        ({"chunk_ms": 650}, "chunk_ms takes a multiple of 20; is: 650"),
        ({"stream_ttl_s": 0}, "stream_ttl_s must be above 0; is: 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(graph, settings, message):
    with pytest.raises(ConfigError, match=message):
        opened(graph, **settings)
