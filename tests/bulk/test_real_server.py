"""A real server: a recording in pieces has the result of the whole."""

import json
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
from bulk_runs import finished, shards

ROOT = Path(__file__).parents[2]
LACKS = [name for name in ("ray", "silero_vad") if not find_spec(name)]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.server,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(LACKS), reason=f"{LACKS} missing: make bulk-test has them"),
]


@pytest.fixture
def long_recording(tmp_path: Path) -> Path:
    """Return three minutes of speech with pauses, of 22.05 kHz and two channels."""
    random = np.random.default_rng(5)
    files = sorted((ROOT / "tests" / "data").glob("kokoro*.ogg"))
    parts = []
    for number in range(24):
        samples, rate = soundfile.read(files[number % len(files)], dtype="float32")
        noise = random.standard_normal(int(rate * random.uniform(0.2, 3.0))) * 0.002
        parts += [samples, noise.astype(np.float32)]
    whole = np.concatenate(parts)
    path = tmp_path / "in" / "long.flac"
    path.parent.mkdir()
    soundfile.write(path, np.stack([whole, whole * 0.5], axis=1), 22050)
    return path


@pytest.mark.parametrize(
    "options",
    [
        ("--word-timestamps",),
        ("--channels", "2", "--nbest", "2"),
        ("--decoder", "wfst", "--lattice"),
    ],
)
def test_a_recording_in_pieces_has_the_result_of_the_whole(
    bulk: Callable[..., "subprocess.Popen[str]"],
    real_conch: Path,
    long_recording: Path,
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    outputs = []
    for name, piece in (("whole", 0), ("pieces", 20)):
        out = tmp_path / name
        arguments = ("--piece", piece, "--conch", real_conch, "--format", "json", *options)
        finished(bulk(long_recording.parent, "--out", out, *arguments), 0)
        outputs.append(shards(out))
        (path,) = out.glob("part-*")
        row = json.loads(path.read_text())
        assert (row["pieces"] > 2) == bool(piece)
        assert len(row["segments"]) > 8
        lattices = [item.get("lattice") for item in row["segments"]]
        assert all(lattices) if "--lattice" in options else not any(lattices)
        (beside,) = out.rglob("long.flac.json")
        outputs.append(json.loads(beside.read_text()) | {"stages": None})
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[3]
