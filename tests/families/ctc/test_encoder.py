"""The full-context component against the model it was exported from, on real speech."""

import json
from pathlib import Path

import ctc_toys
import numpy as np
import pytest
import torch
from recordings import Recording, wer
from tiny_arpa import TINY
from transducer_toys import with_tokens

from conch.component import Row, answers
from conch.decoding.ngram.files import read_ngrams
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.decoding.units import units_from_dict
from conch.decoding.vocab import vocab_of
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig, CtcStreamingDecoderConfig
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.ctc.vocabulary import read_vocabulary
from conch.families.search.encoders import buckets
from conch.graphs.build import build_graph
from conch.wire.errors import AudioError, ConfigError, OptionError
from conch.wire.joining import joined_text
from lab.training.ctc.scoring import log_probs_of
from lab.training.ctc.units import greedy_text


def rows(waveforms):
    return [Row({"waveform": waveform}) for waveform in waveforms]


@pytest.fixture(scope="module")
def encoder(exported_ctc) -> CtcEncoder:
    _, path = exported_ctc
    return CtcEncoder(CtcEncoderConfig(model=str(path), intra_threads=2))


def test_equals_the_training_code(exported_ctc, encoder, speech: list[Recording]):
    model, _ = exported_ctc
    waveforms = [item.waveform() for item in speech]
    with torch.inference_mode():
        expected = log_probs_of(model, waveforms)
    for found, wanted in zip(encoder(rows(waveforms)), expected, strict=True):
        assert found["log_probs_lens"] == len(wanted)
        np.testing.assert_allclose(found["log_probs"], wanted, rtol=0, atol=1e-3)


def test_padding_changes_nothing(exported_ctc, encoder, speech):
    _, path = exported_ctc
    together = CtcEncoder(
        CtcEncoderConfig(model=str(path), intra_threads=2, max_padding=0.99, max_batch_s=600)
    )
    waveforms = [item.waveform() for item in speech]
    waveforms += [waveforms[0][:1], waveforms[1][:5_000], waveforms[2][:16_123]]
    for found, alone in zip(together(rows(waveforms)), waveforms, strict=True):
        (expected,) = encoder(rows([alone]))
        assert len(found["log_probs"]) == -(-len(alone) // 320)
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], rtol=0, atol=1e-3)


def test_buckets_hold_neighbours_in_length_and_everyone_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lens = rng.integers(1, 1000, size=rng.integers(0, 40)).tolist()
        found = buckets(lens, 0.2, 3000)
        assert sorted(index for bucket in found for index in bucket) == list(range(len(lens)))
        for bucket in found:
            longest = max(lens[index] for index in bucket)
            assert min(lens[index] for index in bucket) >= 0.8 * longest
            assert longest * len(bucket) <= 3000


@pytest.mark.parametrize("seconds", [0, 41])
def test_a_bad_length_fails_alone(encoder, speech, seconds):
    good = speech[0].waveform()
    bad, answer = answers(encoder, rows([np.zeros(seconds * 16_000, np.float32), good]))
    assert isinstance(bad, AudioError)
    assert f"sent: {seconds} s" in str(bad)
    assert np.isfinite(answer["log_probs"]).all()


def test_the_longest_segment(encoder):
    longest = np.zeros(40 * 16_000, np.float32)
    sent = [Row({"waveform": longest}), Row({"waveform": np.append(longest, np.float32(0))})]
    taken, refused = answers(encoder, sent)
    assert taken["log_probs_lens"].item() == len(taken["log_probs"]) > 0
    assert isinstance(refused, AudioError)
    assert "at most 40 s of audio" in str(refused)


def test_a_file_that_is_no_model_is_named(tmp_path):
    missing = tmp_path / "missing.onnx"
    with pytest.raises(ConfigError, match=r"missing\.onnx does not exist"):
        CtcEncoder(CtcEncoderConfig(model=str(missing)))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no graph")
    with pytest.raises(ConfigError, match=r"cannot load .*broken\.onnx"):
        CtcEncoder(CtcEncoderConfig(model=str(broken)))
    silero = pytest.importorskip("conch.families.silero.vad")
    with pytest.raises(ConfigError, match=r"not a graph of lab\.training\.ctc\.export"):
        CtcEncoder(CtcEncoderConfig(model=str(silero.model_path(""))))


def test_the_shipped_model_hears_real_speech(speech):
    """Greedy, and far from perfect, but what was said."""
    encoder = CtcEncoder(CtcEncoderConfig(intra_threads=2))
    texts = [
        greedy_text(answer["log_probs"].argmax(1).tolist(), encoder.vocabulary.texts)
        for answer in encoder(rows([item.waveform() for item in speech]))
    ]
    rates = [wer(item.text, text) for item, text in zip(speech, texts, strict=True)]
    assert np.mean(rates) < 0.5


PIECES = [
    "<unk>",
    "▁",
    "'",
    "▁A",
    "▁B",
    "▁C",
    "▁CA",
    "▁CAT",
    "▁S",
    "▁SA",
    "▁THE",
    "▁TH",
    "▁T",
    "HE",
]
HANZI = ["<unk>", "▁", *"你好世界再见中国大家天地人上下左右", "▁a", "b"]


def saved(folder: Path, symbols: list[str]) -> Path:
    """Write a folder with these symbols behind the blank, and others up to its width."""
    ctc_toys.icefall(folder)
    others = [chr(65 + n) for n in range(26)]
    found = ["<blk>", *symbols, *others, *(f"<{n}>" for n in range(40))][:40]
    return with_tokens(folder, found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("ctc") / "toy", PIECES)


@pytest.fixture(scope="module")
def hanzi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("ctc") / "hanzi", HANZI)


def path_of(folder: Path, *symbols: str, peak: float = 0.9) -> np.ndarray:
    """Return log probabilities in which each symbol has a frame; of two, the first more."""
    known = [line.rsplit(" ", 1)[0] for line in (folder / "tokens.txt").read_text().splitlines()]
    probs = np.full((len(symbols), 40), (1 - peak) / 40, np.float32)
    for row, symbol in zip(probs, symbols, strict=True):
        one, _, other = symbol.partition("|")
        row[known.index(one)] = peak * (0.55 if other else 1.0)
        if other:
            row[known.index(other)] = peak * 0.45
    return np.log(probs / probs.sum(axis=1, keepdims=True))


def answer(component: CtcDecoder, log_probs: np.ndarray, **parameters: object) -> dict:
    inputs = {"log_probs": log_probs, "log_probs_lens": np.array([len(log_probs)], np.int32)}
    (found,) = component([Row(inputs, parameters)])
    if isinstance(found, Exception):
        raise found
    return dict(found)


SPOKEN = ("▁THE", "<blk>", "▁CAT", "<unk>", "S", "<blk>", "▁SA", "T", "<blk>")


@pytest.mark.parametrize("beam_size", [1, 8])
def test_pieces_are_words_with_times(folder, beam_size):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    found = answer(decoder, path_of(folder, *SPOKEN), beam_size=beam_size)
    assert found["hypotheses"].tolist() == [b"THE CATS SAT"]
    assert found["words"].tolist() == [b"THE", b"CATS", b"SAT"]
    np.testing.assert_allclose(found["word_starts"], [0.0, 0.08, 0.24])
    np.testing.assert_allclose(found["word_ends"], [0.04, 0.2, 0.32], rtol=1e-6)


@pytest.mark.parametrize("beam_size", [1, 8])
def test_letters_of_a_script_without_spaces_are_words(hanzi, beam_size):
    decoder = StreamingDecoder(CtcDecoder(CtcStreamingDecoderConfig(model=str(hanzi))), 90.0)
    log_probs = path_of(hanzi, "你", "<blk>", "好", "▁a", "b", "世")
    inputs = {"log_probs": log_probs, "log_probs_lens": np.array([6], np.int32)}
    (found,) = decoder([Row(inputs, {"beam_size": beam_size}, stream_id=1, starts=True)])
    decoder.close()
    assert not isinstance(found, Exception)
    assert found["hypotheses"][0].decode() == "你好 ab 世"
    assert [item.decode() for item in found["words"][:4]] == ["你", "好", "ab", "世"]
    assert found["stable"][0].decode() == "你好 ab"


@pytest.mark.parametrize("beam_size", [1, 8])
def test_bytes_are_letters_once_they_are_complete(tmp_path, beam_size):
    folder = saved(tmp_path / "toy", ["<unk>", "▁a", "<0xE4>", "<0xBD>", "<0xA0>"])
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    spoken = path_of(folder, "▁a", "<0xE4>", "<0xBD>", "<0xA0>", "<blk>")
    found = answer(decoder, spoken, beam_size=beam_size)
    assert found["words"][:2].tolist() == [b"a", "你".encode()]
    np.testing.assert_allclose(found["word_ends"][:2], [0.04, 0.16])


def test_a_text_is_that_of_its_words(folder, hanzi):
    random = np.random.default_rng(0)
    for model in (folder, hanzi):
        vocab = vocab_of(read_vocabulary(str(model)))
        for _ in range(30):
            units = random.integers(1, 40, 30).tolist()
            words = vocab.words((unit, 0, 0.0) for unit in units)
            assert vocab.text_of(units) == joined_text(word.text for word in words)


def test_hotwords_in_any_case(folder, hanzi):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    log_probs = path_of(folder, "▁A", "<blk>", "▁C", "A", "P|T", "<blk>", "▁B", "<blk>")
    assert answer(decoder, log_probs)["hypotheses"][0] == b"A CAP B"
    assert answer(decoder, log_probs, hotwords="cat:20")["hypotheses"][0] == b"A CAP B"
    pieces = path_of(folder, "▁A", "<blk>", "▁C|▁CAT", "<blk>", "▁B", "<blk>")
    assert answer(decoder, pieces)["hypotheses"][0] == b"A C B"
    assert answer(decoder, pieces, hotwords="cat:20")["hypotheses"][0] == b"A CAT B"
    with pytest.raises(OptionError, match=r"'hotwords' takes phrases .* which has 'Z'"):
        answer(decoder, log_probs, hotwords="Zürich")
    assert answer(decoder, pieces, hotwords="c\u2019:20")["hypotheses"][0] == b"A C B"
    decoder = CtcDecoder(CtcDecoderConfig(model=str(hanzi)))
    log_probs = path_of(hanzi, "你", "好", "世", "<blk>", "见|界", "<blk>")
    assert answer(decoder, log_probs)["hypotheses"][0].decode() == "你好世见"
    assert answer(decoder, log_probs, hotwords="世界:20")["hypotheses"][0].decode() == "你好世界"


def test_live_letters_are_stable_with_hotwords_too(hanzi):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(hanzi)))
    live = decoder.new_search({"beam_size": 8, "hotwords": "世界:20"})
    stable = []
    for row in path_of(hanzi, "你", "好", "中", "国", "世", "<blk>", "见|界", "<blk>"):
        live.advance(row[None])
        live.nbest(1, is_final=False)
        stable.append(live.stable_text())
    # The beam's last letter may change, and two texts agree on those before it.
    assert stable[-1].startswith("你好中国")


def test_byte_bpe_has_hotwords_in_ascii(tmp_path):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(saved(tmp_path, ["▁ƍĩ", "Ĵ", "ƎķŎ", "o"]))))
    log_probs = np.log(np.full((3, 40), 1 / 40, np.float32))
    answer(decoder, log_probs, hotwords="oo")
    with pytest.raises(OptionError, match=r"phrases .* of ASCII, .*; sent: '你好', which has '你'"):
        answer(decoder, log_probs, hotwords="你好")


def test_texts_have_scores(folder):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    inputs = {
        "log_probs": path_of(folder, "▁THE", "<blk>", "▁CAT"),
        "log_probs_lens": np.array([3], np.int32),
        "texts": np.array([b"The cat.", b"the cab"], dtype=np.object_),
    }
    (found,) = decoder([Row(inputs)])
    assert not isinstance(found, Exception)
    right, wrong = found["text_scores"].tolist()
    assert right > np.log(0.5) and wrong < right - 2
    (refused,) = decoder([Row(inputs | {"texts": np.array(["你好".encode()], dtype=np.object_)})])
    assert isinstance(refused, OptionError)
    assert "'ctc_rescore' takes texts in letters of the CTC model" in str(refused)


def test_a_graph_of_its_units_writes_as_the_language_model(folder, tmp_path):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    with pytest.raises(OptionError, match="cannot be wfst here: no graph is loaded; conch graph"):
        answer(decoder, path_of(folder, *SPOKEN), decoder="wfst")
    first = answer(decoder, path_of(folder, *SPOKEN), decoder="wfst", skip_foreign=True)
    assert first["hypotheses"].tolist() == [b"THE CATS SAT"]

    arpa = tmp_path / "tiny.arpa"
    arpa.write_text(TINY)
    units = units_from_dict(json.loads(read_vocabulary(str(folder)).units))
    build_graph(tmp_path / "tiny.fst", units, read_ngrams(arpa, print))
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder), graph=str(tmp_path / "tiny.fst")))
    log_probs = path_of(folder, "▁A", "<blk>", "▁B", "<blk>", "▁A|▁THE")
    assert answer(decoder, log_probs, decoder="wfst")["hypotheses"].tolist() == [b"a b a"]


def test_fusion_needs_a_language_model_in_the_letters_of_the_model(folder, hanzi, tmp_path):
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    with pytest.raises(OptionError, match="'lm_fusion' takes false here: no language model"):
        answer(decoder, path_of(folder, "▁A"), lm_fusion=True)
    arpa = tmp_path / "tiny.arpa"
    arpa.write_text(TINY)
    with pytest.raises(ConfigError, match="language_model has no word that the units of the model"):
        CtcDecoder(CtcDecoderConfig(model=str(folder), language_model=str(arpa)))
    lines = (line.upper() if "\t" in line else line for line in TINY.splitlines(keepends=True))
    arpa.write_text("".join(lines).replace("S>", "s>"))
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder), language_model=str(arpa)))
    log_probs = path_of(folder, "▁A", "<blk>", "▁C|▁B")
    assert answer(decoder, log_probs, beam_size=8)["hypotheses"][0] == b"A C"
    assert answer(decoder, log_probs, beam_size=8, lm_fusion=True)["hypotheses"][0] == b"A B"


def test_the_language_is_any_unless_it_is_set(folder):
    log_probs = path_of(folder, "▁A")
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder)))
    assert answer(decoder, log_probs, language="zh")["hypotheses"][0] == b"A"
    decoder = CtcDecoder(CtcDecoderConfig(model=str(folder), language="de"))
    with pytest.raises(OptionError, match="'language' takes auto or de with this CTC model"):
        answer(decoder, log_probs, language="zh")
