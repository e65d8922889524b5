"""What people send for a language, and the code that it stands for."""

import pytest

from conch.client import tensors
from conch.wire.languages import LANGUAGES, code_of, codes_of
from conch.wire.options import RecognitionOptions

SENT = [
    *(("en", "en"), ("EN", "en"), ("en-US", "en"), (" en_us ", "en"), ("english", "en")),
    *(("English", "en"), ("pt_BR", "pt"), ("zh-Hans", "zh"), ("zh-Hant-TW", "zh"), ("haw", "haw")),
    *(("yue-Hant-HK", "yue"), ("cmn-Hans-CN", "zh"), ("nb-NO", "no"), ("iw", "he"), ("JV", "jw")),
    *(("Mandarin", "zh"), ("Haitian Creole", "ht"), ("auto", "auto"), ("AUTO", "auto")),
    *(("", "auto"), ("  ", "auto"), ("es-419", "es"), ("de-CH-1996", "de")),
]


@pytest.mark.parametrize(("sent", "code"), SENT)
def test_a_code_a_region_or_a_name_is_a_code(sent: str, code: str) -> None:
    assert code_of(sent) == code


@pytest.mark.parametrize(
    "sent", ["xx", "germna", "cn", "en,de", "en-", "-en", "tlh-Latn", "x" * 999]
)
def test_what_is_no_language_stays_as_it_was_sent(sent: str) -> None:
    assert code_of(sent) == sent


def test_codes_and_names_of_all_languages_are_their_codes() -> None:
    for code, name in LANGUAGES.items():
        assert code_of(code) == code_of(name) == code_of(f"{code.upper()}-XX") == code


def test_a_list_has_each_language_once() -> None:
    assert codes_of("en-US, EN,german,, de,xx") == ("en", "de", "xx")
    assert codes_of(" , ") == ()


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(("sent", "code"), SENT)
def test_the_option_takes_all_of_them(sent: str, code: str, live: bool) -> None:
    assert RecognitionOptions.parse({"language": sent}, live=live).language == code


def test_a_client_sends_the_code() -> None:
    options = {"language": "en-US"}
    asked = tensors.build([b"a file"], 16_000, None, "speech", "", options, default_timeout_s=1.0)
    assert asked.parameters == {"language": "en"}
