"""The encoders against themselves: pieces and the whole, a batch and a row alone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from conch.component import Row
from conch.component.kaldi_fbank import KaldiFbank
from conch.families.search.graphs import LiveConfig, RecordingsConfig
from conch.families.transducer.networks import TransducerEncoder, TransducerStreamingEncoder
from conch.wire.errors import ConfigError, OptionError, SessionError

LIVE = ("zipformer2", "lstm", "conformer")


@pytest.fixture
def noise() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(0, 0.1, size).astype(np.float32) for size in (16_000, 23_456, 40_001)]


@pytest.fixture(params=LIVE)
def live(request: pytest.FixtureRequest, toys: dict[str, Path]) -> Iterator[tuple[str, object]]:
    config = LiveConfig(model=str(toys[request.param]), intra_threads=1)
    encoder = TransducerStreamingEncoder(config)
    yield request.param, encoder
    encoder.close()


def recorded(folder: Path, waveforms: list[np.ndarray]) -> list[np.ndarray]:
    encoder = TransducerEncoder(RecordingsConfig(model=str(folder), intra_threads=1))
    found = encoder([Row({"waveform": item}) for item in waveforms])
    for item in found:
        assert item["encoder_out_lens"].item() == len(item["encoder_out"])
    return [item["encoder_out"] for item in found]


def test_features_of_pieces_are_those_of_the_whole(noise):
    waveform = noise[1]
    stream = KaldiFbank(80)
    pieces = np.split(waveform, [1, 399, 5000, 5001, 20_000])
    found = []
    for piece in pieces:
        stream.accept(piece)
        done = sum(map(len, found))
        found.append(stream.frames(done, stream.ready))
    stream.finish()
    done = sum(map(len, found))
    found.append(stream.frames(done, stream.ready))
    np.testing.assert_array_equal(np.concatenate(found), KaldiFbank(80).whole(waveform))


@pytest.mark.parametrize("kind", [*LIVE, "offline"])
def test_rows_of_a_batch_are_those_of_rows_alone(kind, toys, noise):
    together = recorded(toys[kind], noise)
    for item, waveform in zip(together, noise, strict=True):
        (alone,) = recorded(toys[kind], [waveform])
        np.testing.assert_allclose(item, alone, atol=1e-5)
    assert not np.allclose(together[0][:20], together[1][:20], atol=0.1)


def test_live_pieces_of_several_streams_are_the_recordings(live, toys, noise):
    kind, encoder = live
    frames: list[list[np.ndarray]] = [[] for _ in noise]
    step = 7_000
    for start in range(0, 42_000, step):
        going = [n for n, item in enumerate(noise) if start < len(item)]
        rows = [
            Row(
                {"waveform": noise[n][start : start + step]},
                stream_id=n + 1,
                starts=start == 0,
                ends=start + step >= len(noise[n]),
            )
            for n in going
        ]
        for n, row, found in zip(going, rows, encoder(rows), strict=True):
            frames[n].append(found["encoder_out"].reshape(-1, 32))
            heard = min(start + step, len(noise[n]))
            if not row.ends:
                # An output frame for each 640 samples that are in a chunk.
                assert found["behind_samples"] == heard - 640 * sum(map(len, frames[n]))
    assert len(encoder) == 0
    for item, whole in zip(frames, recorded(toys[kind], noise), strict=True):
        np.testing.assert_allclose(np.concatenate(item), whole, atol=1e-5)


def test_a_stream_that_is_not_open(live):
    _, encoder = live
    (found,) = encoder([Row({"waveform": np.zeros(10, np.float32)}, stream_id=5)])
    assert isinstance(found, SessionError)


def test_an_encoder_of_recordings_hears_no_live_audio(toys):
    config = LiveConfig(model=str(toys["offline"]))
    encoder = TransducerStreamingEncoder(config)
    with pytest.raises(OptionError, match="'decoder' cannot be transducer for live audio here"):
        encoder([Row({"waveform": np.zeros(10, np.float32)}, stream_id=5, starts=True)])
    encoder.close()


@pytest.mark.parametrize("kind", ["zipformer2", "offline"])
def test_the_shortest_audio_has_a_frame(kind, toys):
    (found,) = recorded(toys[kind], [np.zeros(1, np.float32)])
    assert len(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "parameter 'model' is empty: conch serve --transducer FOLDER sets it"),
        ({"model": "nowhere"}, r"nowhere is no transducer: it lacks encoder\*\.onnx"),
        ({"precision": "int4"}, "parameter 'precision' takes float32 or int8; is: 'int4'"),
        ({"max_padding": 1.0}, "max_padding must be in"),
    ],
)
def test_settings_that_are_refused(settings, message, toys):
    settings = {"model": str(toys["lstm"]), **settings} if settings else {}
    with pytest.raises(ConfigError, match=message):
        TransducerEncoder(RecordingsConfig(**settings))
