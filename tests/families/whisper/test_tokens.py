"""Prompts and languages; the tokenizer of tiny.en holds the multilingual tokens too."""

import pytest

from conch.families.whisper.config import model_folder
from conch.families.whisper.tokens import WhisperTokens
from conch.wire.errors import ConfigError, OptionError


@pytest.fixture(scope="module")
def english() -> WhisperTokens:
    return WhisperTokens(model_folder(""), multilingual=False)


@pytest.fixture(scope="module")
def multilingual() -> WhisperTokens:
    return WhisperTokens(model_folder(""), multilingual=True)


def test_prompts(english, multilingual):
    # <|startoftranscript|> (<|de|> <|transcribe|>) <|notimestamps|>
    assert english.prompt("en") == [50257, 50362]
    assert multilingual.prompt("de") == [50257, 50260, 50358, 50362]
    assert multilingual.start_sequence("de") == [50257, 50260, 50358]


def test_texts_survive(english):
    text = "Naïve café, isn't it? 東京 🎉"
    assert english.decode(english.encode(text, "en")).strip() == text
    assert english.decode([50257, *english.encode("hello", "en"), 50256, 50900]) == " hello"


def test_languages_without_spaces_begin_without_one(english):
    assert english.decode(english.encode("東京", "ja")) == "東京"
    assert not english.is_spaced("zh") and english.is_spaced("de")


def test_languages(english, multilingual):
    for language in ("auto", "de", "zh", "haw"):
        multilingual.check_language(language)
    with pytest.raises(OptionError) as error:
        multilingual.check_language("xx")
    assert str(error.value) == (
        "option 'language' takes auto or one of this model's 99 codes "
        "(en, zh, de, es, ru, ko, fr, ja, …); sent: 'xx'"
    )
    english.check_language("en")
    with pytest.raises(
        OptionError, match=r"English only; conch serve --whisper base .*; sent: 'de'"
    ):
        english.check_language("de")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        *(("german", "de"), ("German", "de"), ("zh-CN", "zh"), ("en_US", "en"), ("mandarin", "zh")),
        *(("nb-NO", "no"), ("jv", "jw"), ("cn", "zh"), ("JP", "ja")),
    ],
)
def test_a_name_a_region_or_another_code_gets_a_hint(multilingual, sent, meant):
    with pytest.raises(OptionError, match=f"did you mean {meant}\\?; sent: '{sent}'"):
        multilingual.check_language(sent)
    with pytest.raises(OptionError, match=f"option 'languages' takes codes .* mean {meant}"):
        multilingual.check_choice(["en", sent])


def test_what_an_english_model_lacks(english, multilingual):
    with pytest.raises(OptionError, match="option 'task' takes transcribe: this model knows Engl"):
        english.check_task("translate")
    with pytest.raises(OptionError, match=r"option 'languages' takes en: .* sent: 'de'"):
        english.check_choice(["en", "de"])
    with pytest.raises(OptionError, match="option 'task' takes transcribe or translate; sent: 'x'"):
        multilingual.check_task("x")
    multilingual.check_task("translate")
    assert multilingual.start_sequence("de", "translate") == [50257, 50260, 50357]


def test_the_text_before(english):
    assert english.decode(english.before(" Conch. ")) == " Conch."
    assert english.before("  ") == []
    assert english.prompt("en", [1, 2]) == [50360, 1, 2, 50257, 50362]
    with pytest.raises(OptionError, match=r"option 'prompt' takes at most 223 .* sent: 224 in 448"):
        english.before("a b " * 112)


def test_another_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text(
        '{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}'
    )
    with pytest.raises(ConfigError, match=r"is not Whisper's: it has no <\|startoftranscript\|>"):
        WhisperTokens(tmp_path, multilingual=False)
