import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from conch.wire.errors import BenchError, OptionError
from lab.__main__ import main
from lab.perf_analyzer.files import PerfAnalyzerInput, check, request_parameters

BENCH = ["perf-analyzer-input"]


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """Return a recording of 1.5 s at 8 kHz."""
    samples = 0.5 * np.sin(np.arange(12_000) / 5)
    path = tmp_path / "tone.wav"
    soundfile.write(path, samples, 8000, subtype="PCM_16")
    return path


def content(tensor: Mapping[str, Any]) -> bytes:
    return base64.b64decode(tensor["content"]["b64"])


def written(folder: Path) -> tuple[list[Any], list[Any]]:
    names = "recordings.json", "streams.json"
    recordings, streams = (json.loads((folder / name).read_text())["data"] for name in names)
    return recordings, streams


def test_chunks_of_a_stream_are_the_samples_of_its_recording(tone: Path, capsys) -> None:
    out = tone.parent / "out"
    assert main([*BENCH, "--out", str(out), "--chunk-ms", "400", str(tone)]) == 0
    ((recording,), (stream,)) = written(out)
    samples = soundfile.read(tone, dtype="int16")[0]
    assert content(recording["PCM16"]) == samples.tobytes()
    assert recording["PCM16"]["shape"] == [12_000]
    assert recording["SAMPLE_RATE"] == {"content": [8000], "shape": [1]}
    assert [step["PCM16"]["shape"] for step in stream] == [[3200], [3200], [3200], [2400]]
    assert b"".join(content(step["PCM16"]) for step in stream) == samples.tobytes()
    assert "1 recordings, 1.5 s, 4 chunks" in capsys.readouterr().err


def test_a_file_is_a_bytes_element_with_its_length(tone: Path) -> None:
    out = tone.parent / "out"
    assert main([*BENCH, "--out", str(out), "--send", "file", str(tone)]) == 0
    ((recording,), _) = written(out)
    data = tone.read_bytes()
    assert content(recording["AUDIO"]) == len(data).to_bytes(4, "little") + data
    assert recording["AUDIO"]["shape"] == [1]


def test_full_scale_stays_in_range(tmp_path: Path) -> None:
    loud = tmp_path / "loud.wav"
    soundfile.write(loud, np.array([1.0, -1.0, 0.5]), 16_000, subtype="FLOAT")
    assert main([*BENCH, "--out", str(tmp_path), str(loud)]) == 0
    ((recording,), _) = written(tmp_path)
    assert np.frombuffer(content(recording["PCM16"]), "<i2").tolist() == [32767, -32768, 16384]


def test_the_commands_pace_streams_and_send_options(tone: Path, capsys) -> None:
    manifest = tone.parent / "manifest.tsv"
    manifest.write_text(f"path\ttext\n{tone.name}\t\n" * 1 + f"{tone.name}\t\n")
    flags = [
        "--streams",
        "4",
        "--concurrency",
        "1,3",
        "--url",
        "grpc://box:9",
        "--option",
        "nbest=3",
    ]
    live = ["--stream-option", "mode=streaming"]
    out = str(tone.parent / "out")
    assert main([*BENCH, "--out", out, *flags, *live, str(manifest)]) == 0
    lines = capsys.readouterr().out.splitlines()
    base = "perf_analyzer -m speech -i grpc -u box:9 --input-data"
    recordings = f"{base} {out}/recordings.json --request-parameter nbest:3:int"
    streams = (
        f"{base} {out}/streams.json --bls-composing-models ctc_streaming_encoder "
        "--streaming "
        "--request-parameter session:perf_analyzer:string --request-parameter mode:streaming:string"
    )
    # Requests go round the recordings: each is sent as often as the others.
    assert [line for line in lines if not line.startswith("#")] == [
        f"{recordings} --concurrency-range 1 --request-count 2",
        f"{recordings} --concurrency-range 3 --request-count 4",
        recordings.replace("speech -i", "speech_stream -i").replace("box:9", "box:9 --streaming")
        + " --concurrency-range 1 --request-count 2",
        f"{streams} --request-rate-range 6.25 --num-of-sequences 4 --serial-sequences "
        "--request-count 24",
        f"{streams} --concurrency-range 4 --request-count 24",
    ]
    assert "# 4 live streams in real time: 6.25 chunks of 640 ms a second, for 4 s." in lines


def test_options_have_perf_analyzers_types() -> None:
    assert request_parameters({"rescore": True, "vad_threshold": 1.0, "language": "en"}) == [
        *("--request-parameter", "rescore:true:bool"),
        *("--request-parameter", "vad_threshold:1:int"),
        *("--request-parameter", "language:en:string"),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vad_threshold": 0.4}, "'vad_threshold' takes a whole number here.* sent: 0.4"),
        ({"prompt": "Names: Ada"}, "'prompt' takes no colon here; sent: 'Names: Ada'"),
    ],
)
def test_what_perf_analyzer_cannot_send_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        request_parameters(options)


def test_a_url_of_http_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"--url takes grpc://host:port.*sent: 127\.0\.0\.1:8000"):
        check(PerfAnalyzerInput(inputs=[], out=tmp_path, url="127.0.0.1:8000"))


def test_a_broken_recording_leaves_nothing_behind(tone: Path, capsys) -> None:
    broken = tone.parent / "broken.wav"
    broken.write_bytes(b"RIFF, but no wave")
    out = tone.parent / "out"
    assert main([*BENCH, "--out", str(out), str(tone), str(broken)]) == 1
    assert "broken.wav cannot be decoded" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_a_wrong_option_is_wrong_usage(tone: Path, capsys) -> None:
    command = [*BENCH, "--out", str(tone.parent / "out"), str(tone)]
    for wrong, message in (
        (("--stream-option", "channels=split"), "channels"),
        (("--option", "vad_threshold=0.4"), "sends no fractions"),
    ):
        with pytest.raises(SystemExit) as left:
            main([*command, *wrong])
        assert left.value.code == 2
        assert message in capsys.readouterr().err
    assert not (tone.parent / "out").exists()
