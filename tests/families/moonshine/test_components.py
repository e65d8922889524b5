"""Encoder and decoder on real weights and real speech."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from recordings import TIGER, wer

from conch.component import Row, answers, bytes_array
from conch.families.moonshine.decoder import (
    DecoderComponent,
    MoonshineDecoderConfig,
    MoonshineTokens,
)
from conch.families.moonshine.network import FRAME_SAMPLES, EncoderComponent, MoonshineConfig
from conch.wire.errors import AudioError, ConfigError, InvalidRequestError, OptionError

DATA = Path(__file__).parents[2] / "data"


def decoded(decoder, encoded, **parameters) -> dict[str, np.ndarray]:
    (answer,) = decoder([Row(encoded, parameters)])
    return answer


def scored(decoder, encoded, *texts: str) -> np.ndarray:
    (answer,) = decoder([Row({**encoded, "texts": bytes_array(list(texts))})])
    return answer["text_scores"]


@pytest.mark.parametrize("beam_size", [1, 5])
def test_speech_is_decoded(decoder, encoded, beam_size):
    answer = decoded(decoder, encoded, beam_size=beam_size, nbest=beam_size)
    assert wer(TIGER, answer["hypotheses"][0].decode()) <= 0.15
    assert 1 <= len(answer["hypotheses"]) <= beam_size
    assert len(set(answer["hypotheses"])) == len(answer["hypotheses"])
    assert np.all(np.diff(answer["scores"]) <= 0)
    assert answer["language"].tolist() == [b"en"]
    assert np.isnan(answer["language_probability"][0])


@pytest.fixture(scope="session")
def beginnings(encoder, tiger) -> list[dict[str, np.ndarray]]:
    """Hidden states of segments of many lengths."""
    rows = [Row({"waveform": tiger[:end]}) for end in range(8_000, len(tiger), 9_000)]
    return list(encoder(rows))


def asked(states: list[dict[str, np.ndarray]]) -> list[Row]:
    """Return every kind of work for each of some states."""
    kinds: tuple[tuple[dict, dict], ...] = (
        ({}, {"beam_size": 1, "align": True}),
        ({}, {"beam_size": 5, "nbest": 5}),
        ({}, {"beam_size": 1, "align": True, "draft": "Tiger, Tiger, learning"}),
        ({}, {"align": True, "said": "", "draft": "Tiger, Tiger, learning"}),
        ({}, {"align": True, "said": "Tiger, Tiger,", "draft": "burning bride in the"}),
        ({"text": bytes_array(["Tiger, Tiger, burning bright"])}, {}),
        ({"texts": bytes_array(["Tiger, Tiger, burning", "", "no"])}, {}),
    )
    return [
        Row({**state, **inputs}, parameters) for state in states for inputs, parameters in kinds
    ]


# Every row is decoded twice: most of a minute on one core, and more on a busy machine.
@pytest.mark.timeout(600)
def test_a_row_has_the_same_bits_in_any_company(decoder, beginnings):
    rows = asked(beginnings)
    alone = [decoder([row])[0] for row in rows]
    order = np.random.default_rng(7).permutation(len(rows))
    for at in range(0, len(rows), 11):
        places = order[at : at + 11]
        for place, answer in zip(places, decoder([rows[place] for place in places]), strict=True):
            assert answer.keys() == alone[place].keys()
            for name, value in answer.items():
                assert value.tolist() == alone[place][name].tolist() or name.startswith("language")


def test_a_score_is_the_log_probability_of_the_text(exact_decoder, exactly_encoded):
    answer = decoded(exact_decoder, exactly_encoded, beam_size=5, nbest=5)
    texts = [text.decode() for text in answer["hypotheses"]]
    scores = scored(exact_decoder, exactly_encoded, *texts, "", "Nothing of this was said.")
    # The search counts the end of text too.
    assert 0 <= scores[0] - answer["scores"][0] < 1
    assert scores[0] >= max(scores[1:]) - 1
    assert scores[-1] < scores[0] - 20
    alone = [scored(exact_decoder, exactly_encoded, text)[0] for text in texts]
    np.testing.assert_allclose(scores[: len(texts)], alone, atol=1e-3)


@pytest.mark.parametrize(
    "draft",
    ["Tiger, Tiger", "Tiger, Tiger, learning bright in the", "No", "</s>", "one two " * 300],
)
def test_a_draft_changes_no_greedy_text(exact_decoder, exactly_encoded, draft):
    plain = decoded(exact_decoder, exactly_encoded, beam_size=1, align=True)
    for given in ({"beam_size": 1}, {"said": ""}):
        drafted = decoded(exact_decoder, exactly_encoded, align=True, draft=draft, **given)
        assert drafted["hypotheses"].tolist() == plain["hypotheses"].tolist()
        np.testing.assert_allclose(drafted["scores"], plain["scores"], atol=0.01)
        np.testing.assert_allclose(drafted["word_ends"], plain["word_ends"], atol=0.05)


def test_a_text_goes_on_from_what_was_said(exact_decoder, exactly_encoded):
    plain = decoded(exact_decoder, exactly_encoded, beam_size=1, align=True)
    said, *_ = plain["hypotheses"][0].decode().partition(" in")
    again = decoded(exact_decoder, exactly_encoded, align=True, said=said)
    assert again["hypotheses"].tolist() == plain["hypotheses"].tolist()
    np.testing.assert_allclose(again["scores"], plain["scores"], atol=0.01)
    np.testing.assert_allclose(again["word_ends"], plain["word_ends"], atol=0.05)
    np.testing.assert_allclose(again["word_confidences"], plain["word_confidences"], atol=0.01)
    other = decoded(exact_decoder, exactly_encoded, align=True, said="Tigers, Tigers,")
    assert other["hypotheses"][0].startswith(b"Tigers, Tigers, burning bright")


def test_a_beginning_that_is_too_long_is_refused(decoder, encoded):
    with pytest.raises(InvalidRequestError, match="at most 255 tokens; sent: 600"):
        decoded(decoder, encoded, said="one two " * 300)


def test_words_cover_the_text_in_order(decoder, encoded, tiger):
    answer = decoded(decoder, encoded, align=True)
    words = [word.decode() for word in answer["words"]]
    assert " ".join(words) == answer["hypotheses"][0].decode()
    starts, ends = answer["word_starts"], answer["word_ends"]
    assert np.all(starts < ends)
    assert np.all(ends[:-1] <= starts[1:] + 1e-4)
    assert ends[-1] <= len(tiger) / 16000
    assert np.all((answer["word_confidences"] > 0) & (answer["word_confidences"] <= 1))


def test_every_beginning_of_an_utterance_has_words(encoder, decoder, tiger):
    """A text that repeats itself is cut before its end."""
    for end in range(4_000, 48_000, 4_000):
        (encoded,) = encoder([Row({"waveform": tiger[:end]})])
        answer = decoded(decoder, encoded, beam_size=1, align=True)
        assert b" ".join(answer["words"]) == answer["hypotheses"][0]
        assert np.all(answer["word_starts"] < answer["word_ends"])


def test_a_cut_text_has_words(decoder, encoded):
    short = {name: value[:20] for name, value in encoded.items()} | {
        "encoder_out_lens": np.array([20], np.int32)
    }
    answer = decoded(decoder, short, beam_size=1, align=True)
    assert b" ".join(answer["words"]) == answer["hypotheses"][0]


def test_a_given_text_has_the_words_of_a_decoded_one(exact_decoder, exactly_encoded):
    answer = decoded(exact_decoder, exactly_encoded, align=True, beam_size=1)
    text = answer["hypotheses"][0].decode()
    (given,) = exact_decoder([Row({**exactly_encoded, "text": bytes_array([text])})])
    assert given["words"].tolist() == answer["words"].tolist()
    assert np.abs(given["word_starts"] - answer["word_starts"]).max() <= 0.1
    np.testing.assert_allclose(given["word_confidences"], answer["word_confidences"], atol=0.01)


def test_times_are_those_of_the_audio(encoder, decoder, tiger):
    """Words after a second of silence are heard a second later."""
    answers = []
    for waveform in (tiger, np.concatenate([np.zeros(16_000, np.float32), tiger])):
        (encoded,) = encoder([Row({"waveform": waveform})])
        answers.append(decoded(decoder, encoded, align=True))
    # The sentence that both write alike.
    assert answers[0]["words"][:10].tolist() == answers[1]["words"][:10].tolist()
    shifts = answers[1]["word_ends"][:10] - answers[0]["word_ends"][:10]
    assert np.abs(shifts - 1).max() < 0.1


def test_a_word_with_silence_around_it_is_heard(encoder, decoder):
    """The model alone would write nothing."""
    word = soundfile.read(DATA / "short" / "kokoro_1_01645.ogg", dtype="float32")[0]
    (encoded,) = encoder([Row({"waveform": np.pad(word, 8000)})])
    # A full stop follows on some machines only; why is not known.
    assert decoded(decoder, encoded)["hypotheses"][0].decode().rstrip(".") == "Let me try"


@pytest.mark.parametrize("sound", ["silence", "noise", "hum", "clicks"])
def test_nothing_is_invented_where_nobody_speaks(encoder, decoder, sound):
    time = np.arange(5 * 16_000) / 16_000
    waveform = {
        "silence": np.zeros(len(time)),
        "noise": np.random.default_rng(1).normal(0, 0.05, len(time)),
        "hum": 0.1 * np.sin(2 * np.pi * 50 * time),
        "clicks": (time % 0.5 < 1 / 16_000) * 0.5,
    }[sound].astype(np.float32)
    (encoded,) = encoder([Row({"waveform": waveform})])
    assert decoded(decoder, encoded)["hypotheses"].tolist() == [b""]


@pytest.mark.parametrize("samples", [1, 894, 1600, 1601, 480_000])
def test_audio_of_any_length_up_to_30_s_is_encoded(encoder, decoder, samples):
    waveform = np.random.default_rng(0).normal(0, 0.01, samples).astype(np.float32)
    (encoded,) = encoder([Row({"waveform": waveform})])
    frames = encoded["encoder_out_lens"][0]
    assert frames == len(encoded["encoder_out"])
    assert 0 <= max(samples, 1600) - frames * FRAME_SAMPLES < 3 * FRAME_SAMPLES
    assert "hypotheses" in decoded(decoder, encoded, beam_size=1)


def test_wrong_audio_is_an_error_of_its_row(encoder, tiger):
    infinite, nan = tiger.copy(), tiger.copy()
    infinite[7], nan[-1] = -np.inf, np.nan
    waveforms = (tiger[:0], np.zeros(480_001, np.float32), infinite, nan, tiger)
    empty, long, *wrong, fine = answers(encoder, [Row({"waveform": item}) for item in waveforms])
    for error in wrong:
        assert isinstance(error, AudioError)
        assert str(error) == "input 'waveform' has samples that are NaN or infinite"
    assert isinstance(empty, AudioError)
    assert isinstance(long, AudioError)
    assert "30 s" in str(long)
    assert len(fine["encoder_out"]) > 100


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"beam_size": 33}, "option 'beam_size' takes an integer from 1 to 32; sent: 33"),
        ({"nbest": True}, "option 'nbest' takes an integer from 1 to 32; sent: True"),
        ({"language": "de"}, "option 'language' takes auto or en with Moonshine; sent: 'de'"),
        ({"languages": "en,de"}, "option 'languages' takes en with Moonshine; sent: 'en,de'"),
        ({"task": "translate"}, "option 'task' takes transcribe with Moonshine; sent: 'translate'"),
        ({"prompt": "Blake"}, "option 'prompt' takes no text with Moonshine; sent: 'Blake'"),
    ],
)
def test_what_moonshine_cannot_do_is_refused_by_name(decoder, encoded, parameters, error):
    refused, fine = answers(decoder, [Row(encoded, parameters), Row(encoded)])
    assert isinstance(refused, OptionError)
    assert str(refused) == error
    assert wer(TIGER, fine["hypotheses"][0].decode()) <= 0.15


def test_states_of_another_model_are_refused(decoder, encoded):
    hidden = encoded["encoder_out"]
    rows = [
        Row({**encoded, "encoder_out": hidden[:, :384]}),
        Row({**encoded, "encoder_out_lens": np.array([len(hidden) + 1])}),
        Row({**encoded, "text": bytes_array(["one two " * 500])}),
    ]
    for answer in answers(decoder, rows):
        assert isinstance(answer, InvalidRequestError)


def test_names_of_special_tokens_are_text(decoder):
    assert decoder.tokens.decode(decoder.tokens.encode("an </s> in a text")) == " an </s> in a text"


def test_a_folder_must_have_all_files(tmp_path):
    with pytest.raises(ConfigError, match=r"no folder of Moonshine: it lacks encoder_model\.ort, "):
        EncoderComponent(MoonshineConfig(model=str(tmp_path)))
    with pytest.raises(ConfigError, match="nice takes 0 to 19"):
        DecoderComponent(MoonshineDecoderConfig(nice=20))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is no tokenizer: "):
        MoonshineTokens(tmp_path / "tokenizer.json")
