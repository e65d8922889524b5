"""Bad input gets a clear error, and the next request works."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http
from audio_files import audio_file
from infer_inputs import inputs_of
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.server

SECOND = np.zeros((1, 16_000), np.float32)
SECOND16 = np.zeros((1, 16_000), np.int16)


def flac(waveform: np.ndarray) -> bytes:
    return audio_file(waveform, 16_000, format="FLAC")


def infer(triton: http.InferenceServerClient, parameters: dict[str, Any] | None = None, **tensors):
    return triton.infer("speech", inputs_of(http, **tensors), parameters=parameters)


def spoilt(value: float) -> np.ndarray:
    wav = SECOND.copy()
    wav[0, 8_000] = value
    return wav


def ints(value: int) -> np.ndarray:
    return np.array([[value]], np.int32)


def file(data: bytes) -> np.ndarray:
    return np.array([[data]], dtype=object)


BAD = {
    "empty WAV": ({"WAV": np.zeros((1, 0), np.float32)}, {}, "WAV is empty"),
    "NaN": ({"WAV": spoilt(np.nan)}, {}, "WAV has samples that are NaN or infinite"),
    "infinity": ({"WAV": spoilt(np.inf)}, {}, "WAV has samples that are NaN or infinite"),
    "integer samples": ({"WAV": spoilt(20_000)}, {}, "samples are in [-1, 1]"),
    "empty PCM16": ({"PCM16": SECOND16[:, :0]}, {}, "PCM16 is empty"),
    "two": ({"WAV": SECOND, "AUDIO": file(flac(SECOND[0]))}, {}, "sent: WAV and AUDIO"),
    "two kinds of samples": ({"WAV": SECOND, "PCM16": SECOND16}, {}, "sent: WAV and PCM16"),
    "three": (
        {"PCM16": SECOND16, "WAV": SECOND, "AUDIO": file(flac(SECOND[0]))},
        {},
        "sent: WAV and PCM16 and AUDIO",
    ),
    "none": ({"SAMPLE_RATE": ints(16_000)}, {}, "(an encoded file); sent: none"),
    "WAV_LENS above": ({"WAV": SECOND, "WAV_LENS": ints(16_001)}, {}, "WAV (16000); sent: 16001"),
    "WAV_LENS zero": ({"WAV": SECOND, "WAV_LENS": ints(0)}, {}, "WAV (16000); sent: 0"),
    "WAV_LENS negative": ({"WAV": SECOND, "WAV_LENS": ints(-1)}, {}, "WAV (16000); sent: -1"),
    "WAV_LENS of PCM16": (
        {"PCM16": SECOND16, "WAV_LENS": ints(16_001)},
        {},
        "PCM16 (16000); sent: 16001",
    ),
    "rate 0": ({"WAV": SECOND, "SAMPLE_RATE": ints(0)}, {}, "4000 to 192000 Hz; sent: 0"),
    "rate negative": ({"WAV": SECOND, "SAMPLE_RATE": ints(-8000)}, {}, "Hz; sent: -8000"),
    "rate absurd": ({"WAV": SECOND, "SAMPLE_RATE": ints(10**9)}, {}, "Hz; sent: 1000000000"),
    "text file": ({"AUDIO": file(b"Dear server,\n" * 50)}, {}, "AUDIO cannot be decoded"),
    "empty file": ({"AUDIO": file(b"")}, {}, "AUDIO cannot be decoded (0 bytes)"),
    "base64": (
        {"AUDIO": file(base64.b64encode(flac(SECOND[0])))},
        {},
        "found what looks like base64: send the bytes themselves",
    ),
    "playlist": (
        {"AUDIO": file(b"#EXTM3U\n#EXTINF:9,\n/etc/passwd\n")},
        {},
        "found text that begins with '#EXTM3U",
    ),
    "channel of a file": (
        {"AUDIO": file(flac(SECOND[0]))},
        {"channels": 2},
        "AUDIO has 1 channel; sent: 2",
    ),
    "channel of WAV": ({"WAV": SECOND}, {"channels": 2}, "WAV has 1 channel; sent: 2"),
    "channels as a word": ({"WAV": SECOND}, {"channels": "all"}, "mix, split or an integer from 1"),
    "unknown option": ({"WAV": SECOND}, {"nbset": 2}, "did you mean 'nbest'?"),
    "a long name": ({"WAV": SECOND}, {"x" * 1_000_000: 2}, "unknown option 'xxx"),
    "a long value": (
        {"WAV": SECOND},
        {"decoder": "ctc", "hotwords": "x" * 40_001},
        "at most 40000 characters; sent: 40001",
    ),
    "many options": (
        {"WAV": SECOND},
        {f"option{number}": 1 for number in range(65)},
        "at most 64 options; sent: 65",
    ),
    "nbest 0": ({"WAV": SECOND}, {"nbest": 0}, "integer from 1 to 128; sent: 0"),
    "nbest above beam": ({"WAV": SECOND}, {"nbest": 9, "beam_size": 5}, "beam_size (5); sent: 9"),
    "lm_weight as text": ({"WAV": SECOND}, {"lm_weight": "1"}, "number from 0 to 10; sent: '1'"),
    "bool as int": ({"WAV": SECOND}, {"rescore": 1}, "a bool (true or false); sent: 1"),
    "mode": ({"WAV": SECOND}, {"mode": "warp"}, "streaming, two_pass; sent: 'warp'"),
    "row of a batch": (
        {"WAV": np.concatenate([SECOND, spoilt(np.nan)])},
        {},
        "row 1 of 2: WAV has samples",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_the_next_request_works(triton, short, case):
    tensors, parameters, message = BAD[case]
    with pytest.raises(InferenceServerException) as error:
        infer(triton, parameters, **tensors)
    assert message in error.value.message()
    assert error.value.status() == "400"
    assert len(error.value.message()) < 1500
    answer = infer(triton, WAV=short[np.newaxis])
    assert b"Let me try" in answer.as_numpy("TRANSCRIPTS")[0, 0]


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [
        ("AUDIO", "BYTES", [0, 1]),
        ("WAV", "FP32", [0, 16_000]),
        ("PCM16", "INT16", [0, 16_000]),
        ("WAV", "FP32", [1, 0]),
    ],
)
def test_no_row_and_no_sample_are_the_clients_mistake(server, name, kind, shape):
    tensor = {"name": name, "datatype": kind, "shape": shape, "data": []}
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/speech/infer",
        data=json.dumps({"inputs": [tensor]}).encode(),
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 400
    assert name in refused.value.read().decode()


def test_a_wrong_type_or_shape_is_refused_by_triton(triton):
    with pytest.raises(InferenceServerException, match="WAV"):
        infer(triton, WAV=ints(5))
    with pytest.raises(InferenceServerException, match="WAV_LENS"):
        infer(triton, WAV=SECOND, WAV_LENS=np.array([[1, 2]], np.int32))
    for samples, kind in ((SECOND16.astype(np.int32), "INT32"), (spoilt(np.nan), "FP32")):
        refusal = f"'PCM16' data-type is '{kind}', but model 'speech' expects 'INT16'"
        with pytest.raises(InferenceServerException, match=refusal):
            infer(triton, PCM16=samples)


def test_a_language_that_the_model_does_not_speak(triton, waveform):
    with pytest.raises(InferenceServerException) as error:
        infer(triton, {"language": "fr"}, WAV=waveform[np.newaxis])
    assert error.value.message().startswith("INVALID_OPTION: option 'language' takes auto or en")
    assert error.value.message().endswith("sent: 'fr'")
    assert error.value.status() == "400"


@pytest.mark.parametrize("sent", ["en-US", "EN", "english"])
def test_a_language_is_taken_as_people_write_it(triton, waveform, sent):
    answer = infer(triton, {"language": sent}, WAV=waveform[np.newaxis])
    result = json.loads(answer.as_numpy("RESULT").flat[0])
    assert (result["language"], bool(result["text"])) == ("en", True)


@pytest.mark.parametrize(
    "wav",
    [
        pytest.param(np.zeros((1, 160_000), np.float32), id="silence"),
        pytest.param(np.full((1, 160), 0.9, np.float32), id="10 ms click"),
        pytest.param(np.array([[0.5]], np.float32), id="one sample"),
    ],
)
def test_audio_without_speech_is_an_empty_transcript(triton, wav):
    answer = infer(triton, WAV=wav)
    assert answer.as_numpy("TRANSCRIPTS").tolist() == [[b""]]
    assert answer.as_numpy("SCORES").tolist() == [[0.0]]


def test_ten_megabytes_of_noise_are_answered(triton):
    noise = np.random.default_rng(1).uniform(-1, 1, 2_621_440).astype(np.float32)
    answer = infer(triton, WAV=noise[np.newaxis])
    assert len(answer.as_numpy("TRANSCRIPTS")[0, 0]) < 500


def test_a_bad_request_in_a_crowd_fails_alone(triton, waveform):
    good = [("WAV", waveform[np.newaxis])] * 8
    bad = [("WAV", spoilt(np.nan))] * 4
    pending = []
    for name, array in [pair for both in zip(good, bad * 2, strict=True) for pair in both]:
        pending.append(triton.async_infer("speech", inputs_of(http, **{name: array})))
    outcomes = []
    for request in pending:
        try:
            text = request.get_result().as_numpy("TRANSCRIPTS")[0, 0].decode()
            outcomes.append("burning bright in the forest" in text.lower())
        except InferenceServerException as error:
            assert "NaN" in error.message()
            outcomes.append("refused")
    assert outcomes == [True, "refused"] * 8


def test_twenty_megabytes_of_json(server, triton, waveform):
    """As much would end a Triton with the usual stack."""
    samples = np.tile(np.float32(0.0001), 60 * 16_000).tolist()
    tensor = {"name": "WAV", "datatype": "FP32", "shape": [1, len(samples)], "data": samples}
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/speech/infer",
        data=json.dumps({"inputs": [tensor]}).encode(),
    )
    assert len(request.data) > 20e6
    with urllib.request.urlopen(request, timeout=120) as response:
        outputs = {item["name"]: item["data"] for item in json.load(response)["outputs"]}
    assert outputs["TRANSCRIPTS"] == [""]
    assert infer(triton, WAV=waveform[np.newaxis]).as_numpy("TRANSCRIPTS")[0, 0]
