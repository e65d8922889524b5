"""Transducers and FunASR's models on one server, of random weights: recordings and live audio."""

from collections.abc import Iterator
from pathlib import Path

import funasr_toys
import nemo_toys
import numpy as np
import pytest
import transducer_toys
from recordings import Recording

from conch.client import Client
from conch.component import Row
from conch.families.funasr.paraformer import ParaformerComponent
from conch.families.search.graphs import DecoderConfig, RecordingsConfig
from conch.families.transducer.decoder import TransducerDecoder, TransducerDecoderConfig
from conch.families.transducer.networks import TransducerEncoder
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import MissingModelError, OptionError

pytestmark = [pytest.mark.server, pytest.mark.nightly]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transducer_toys.zipformer2(tmp_path_factory.mktemp("transducer") / "toy", seed=3)


@pytest.fixture(scope="module")
def paraformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return funasr_toys.paraformer(tmp_path_factory.mktemp("paraformer"), seed=3)[0]


@pytest.fixture(scope="module")
def nemo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nemo_toys.prompted(tmp_path_factory.mktemp("nemo") / "toy", seed=5)


@pytest.fixture(scope="module")
def client(
    folder: Path, paraformer: Path, nemo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    toys = tmp_path_factory.mktemp("funasr")
    online, _ = funasr_toys.online_paraformer(toys / "online", seed=3)
    voice, _ = funasr_toys.sense_voice(toys / "voice", seed=2)
    named = {"zh": paraformer, "online": online, "voice": voice, "nemo": nemo}
    config = ServerConfig(
        weights={"transducer": str(folder)},
        named={name: str(path) for name, path in named.items()},
        on_demand=True,
        warm_up=True,
        stop_timeout_s=8,
    )
    with TritonServer(config) as server, Client(server.http_url) as client:
        assert {"transducer_encoder", "transducer_streaming_decoder"} <= {*server.models()}
        yield client


def text_of(folder: Path, waveform: np.ndarray, language: str = "auto") -> str:
    """Return what the components write of a whole waveform."""
    encoder = TransducerEncoder(RecordingsConfig(model=str(folder)))
    decoder = TransducerDecoder(TransducerDecoderConfig(model=str(folder)))
    (frames,) = encoder([Row({"waveform": waveform}, {"language": language})])
    (found,) = decoder([Row(frames)])
    assert not isinstance(found, Exception)
    return str(found["hypotheses"][0].decode())


def test_a_recording_is_written_by_the_folder(
    client: Client, folder: Path, recordings: list[Recording]
) -> None:
    waveform = recordings[0].waveform()
    found = client.transcribe(waveform, vad=False, word_timestamps=True)
    assert found.path == ("transducer_encoder", "transducer_decoder")
    assert found.text == text_of(folder, waveform)
    assert " ".join(word.text for word in found.words) == found.text
    times = [time for word in found.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[-1] <= found.duration
    assert {segment.language for segment in found.segments} == {""}


def test_recordings_at_once_are_those_alone(client: Client, recordings: list[Recording]) -> None:
    waveforms = [item.waveform() for item in recordings]
    together = client.transcribe_batch(waveforms, beam_size=4, nbest=4)
    alone = client.transcribe(waveforms[1], beam_size=4, nbest=4)
    assert together[1].text == alone.text
    assert [item.text for item in together[1].nbest] == [item.text for item in alone.nbest]


def test_live_audio_is_written_as_it_is_heard(
    client: Client, folder: Path, recordings: list[Recording]
) -> None:
    waveform = recordings[0].waveform()[: 10 * 16_000]
    with client.live(
        decoder="transducer", endpointing=False, word_timestamps=True, max_utterance_s=28.0
    ) as stream:
        texts = [
            stream.send(waveform[start : start + 5_000]).text
            for start in range(0, len(waveform), 5_000)
        ]
        last = stream.finish()
    assert {"transducer_streaming_encoder", "transducer_streaming_decoder"} <= {*last.path}
    assert any(texts[:-1]), "before the end"
    # What is before the speech is left out.
    heard, whole = last.text.split(), text_of(folder, waveform).split()
    assert len(heard) > 20 and len(whole) > 20
    times = [time for word in last.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[-1] <= len(waveform) / 16_000


def test_two_passes_by_one_model(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[1].waveform()[: 8 * 16_000]
    with client.live(mode="two_pass", decoder="transducer", beam_size=4) as stream:
        stream.send(waveform)
        last = stream.finish()
    assert {"transducer_encoder", "transducer_streaming_encoder"} <= {*last.path}
    assert last.text


def test_live_audio_is_the_folders_by_default(client: Client, recordings: list[Recording]) -> None:
    with client.live() as stream:
        last = stream.finish(recordings[0].waveform()[: 5 * 16_000])
    assert "transducer_streaming_encoder" in last.path


def test_a_transducer_of_nemo_writes_recordings_and_live_audio(
    client: Client, nemo: Path, recordings: list[Recording]
) -> None:
    waveform = recordings[0].waveform()[: 10 * 16_000]
    whole, heard = set(), set()
    for language in ("auto", "ja"):
        found = client.transcribe(waveform, model="nemo", vad=False, language=language)
        assert found.path == ("transducer_encoder.nemo", "transducer_decoder.nemo")
        assert found.text == text_of(nemo, waveform, language)
        with client.live(
            model="nemo", mode="streaming", max_utterance_s=28.0, language=language
        ) as stream:
            last = stream.finish(waveform)
        assert "transducer_streaming_encoder.nemo" in last.path and last.text
        whole.add(found.text)
        heard.add(last.text)
    assert len(whole) == len(heard) == 2
    with pytest.raises(OptionError, match="'language' takes auto, en, ja, zh with this model"):
        client.transcribe(waveform, model="nemo", language="de")


def test_a_paraformer_writes_recordings_and_passes_over_live_audio(
    client: Client, paraformer: Path, recordings: list[Recording]
) -> None:
    waveform = recordings[0].waveform()[: 10 * 16_000]
    (alone,) = ParaformerComponent(DecoderConfig(model=str(paraformer)))(
        [Row({"waveform": waveform})]
    )
    found = client.transcribe(waveform, model="zh", vad=False, word_timestamps=True)
    assert found.path == ("paraformer.zh",)
    assert found.text == alone["hypotheses"][0].decode()
    assert [word.text for word in found.words] == [item.decode() for item in alone["words"]]
    with client.live(model="zh", language="zh", adaptive=False) as stream:
        answers = [
            stream.send(waveform[start : start + 5_000]) for start in range(0, len(waveform), 5_000)
        ]
        last = stream.finish()
    assert any(answer.text for answer in answers), "before the end"
    assert last.text and {item for answer in answers for item in answer.path} == {
        *("vad", "paraformer.zh"),
    }
    with pytest.raises(OptionError, match="'beam_size' takes 1 with decoder paraformer"):
        client.transcribe(waveform, model="zh", beam_size=4)


def test_an_online_paraformer_hears_live_audio(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[0].waveform()[: 8 * 16_000]
    whole = client.transcribe(waveform, model="online")
    assert whole.path == ("vad", "paraformer_online.online")
    for mode in ("streaming", "two_pass"):
        with client.live(
            model="online", decoder="paraformer_online", mode=mode, word_timestamps=True
        ) as stream:
            answers = [
                stream.send(waveform[start : start + 5_000])
                for start in range(0, len(waveform), 5_000)
            ]
            last = stream.finish()
        path = {item for answer in (*answers, last) for item in answer.path}
        assert "paraformer_online_decoder.online" in path
        assert any(answer.text for answer in answers), "before the end"
        times = [time for word in last.words for time in (word.start, word.end)]
        assert times and times == sorted(times) and times[-1] <= len(waveform) / 16_000


def test_a_sense_voice_tells_what_it_hears(client: Client, recordings: list[Recording]) -> None:
    waveform = recordings[0].waveform()[: 8 * 16_000]
    found = client.transcribe(waveform, model="voice", vad=False, itn=True, word_timestamps=True)
    assert found.path == ("sensevoice.voice",)
    (segment,) = found.segments
    assert segment.language in ("zh", "en", "yue", "ja", "ko")
    assert segment.emotion in ("", "happy", "sad", "neutral")
    assert segment.event and "<|" not in found.text
    assert [word.text for word in found.words]
    other = client.transcribe(waveform, model="voice", vad=False, language="yue")
    assert other.segments[0].language_probability is None
    with pytest.raises(OptionError, match="'language' takes auto, zh, en, yue, ja, ko with dec"):
        client.transcribe(waveform, model="voice", language="de")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 33}, "'beam_size' takes at most 32"),
        ({"rescore": True}, "'rescore' with decoder transducer takes lm_weight too"),
        ({"lm_fusion": True}, "'lm_fusion' takes false here: no language model is loaded"),
    ],
)
def test_what_it_cannot_do_is_said(client: Client, options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        waveform = np.zeros(16_000, np.float32)
        client.transcribe(waveform, decoder="transducer", vad=False, **options)


def test_the_error_of_a_decoder_names_the_model_that_has_it(
    client: Client, recordings: list[Recording]
) -> None:
    with pytest.raises(MissingModelError, match="decoder=paraformer needs it: model=zh has one"):
        client.transcribe(recordings[0].waveform(), decoder="paraformer")
