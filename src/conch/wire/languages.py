"""Languages: codes and English names of those that Whisper knows, and what people send for them."""

import difflib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from conch.wire.errors import OptionError

_NAMES = """
af afrikaans|am amharic|ar arabic|as assamese|az azerbaijani|ba bashkir|be belarusian|bg bulgarian
bn bengali|bo tibetan|br breton|bs bosnian|ca catalan|cs czech|cy welsh|da danish|de german|el greek
en english|es spanish|et estonian|eu basque|fa persian|fi finnish|fo faroese|fr french|gl galician
gu gujarati|ha hausa|haw hawaiian|he hebrew|hi hindi|hr croatian|ht haitian creole|hu hungarian
hy armenian|id indonesian|is icelandic|it italian|ja japanese|jw javanese|ka georgian|kk kazakh
km khmer|kn kannada|ko korean|la latin|lb luxembourgish|ln lingala|lo lao|lt lithuanian|lv latvian
mg malagasy|mi maori|mk macedonian|ml malayalam|mn mongolian|mr marathi|ms malay|mt maltese
my myanmar|ne nepali|nl dutch|nn nynorsk|no norwegian|oc occitan|pa punjabi|pl polish|ps pashto
pt portuguese|ro romanian|ru russian|sa sanskrit|sd sindhi|si sinhala|sk slovak|sl slovenian
sn shona|so somali|sq albanian|sr serbian|su sundanese|sv swedish|sw swahili|ta tamil|te telugu
tg tajik|th thai|tk turkmen|tl tagalog|tr turkish|tt tatar|uk ukrainian|ur urdu|uz uzbek
vi vietnamese|yi yiddish|yo yoruba|yue cantonese|zh chinese
"""

_MORE_NAMES = """
mandarin zh|cantonese yue|castilian es|flemish nl|farsi fa|filipino tl|burmese my|haitian ht
moldavian ro|punjabi pa|panjabi pa|pushto ps|sinhalese si|valencian ca
"""
_COUNTRY_CODES = "cn zh|cz cs|dk da|gb en|gr el|ir fa|jp ja|kr ko|se sv|ua uk|us en|vn vi"


def _pairs(text: str) -> Mapping[str, str]:
    items = text.strip().replace("\n", "|").split("|")
    return MappingProxyType(dict(item.split(" ", 1) for item in items))


LANGUAGES = _pairs(_NAMES)
"""Name by code (ISO 639-1, and Whisper's own haw, jw and yue)."""

_SHORT = 12
"""Codes of a model that an error lists in full."""
_OTHER_CODES = {"jv": "jw", "nb": "no", "iw": "he", "fil": "tl", "cmn": "zh"}
"""Whisper's code by that of a standard or a browser."""
_TAG = re.compile(r"([a-z]{2,3})(-[a-z0-9]{2,8})*")
"""A language tag (BCP 47) in lower case: the language, then script, region and variants."""
_COUNTRIES = _pairs(_COUNTRY_CODES)
"""Code of the language by that of a country, which people send in its place."""
_CODES_BY_NAME = {**{name: code for code, name in LANGUAGES.items()}, **_pairs(_MORE_NAMES)}


def code_of(sent: str) -> str:
    """Return the code of a language that is sent as a code, a tag with a region, or a name.

    An unknown language is returned unchanged: a model may know it, and an error names it.

    >>> code_of("en-US"), code_of("PT_br"), code_of("German"), code_of("nb"), code_of(" ")
    ('en', 'pt', 'de', 'no', 'auto')
    """
    text = sent.strip().lower().replace("_", "-")
    if text in ("", "auto"):
        return "auto"
    tag = _TAG.fullmatch(text)
    code = _OTHER_CODES.get(tag[1], tag[1]) if tag else ""
    return code if code in LANGUAGES else _CODES_BY_NAME.get(text, sent.strip())


def check_language(parameters: Mapping[str, Any], known: str, model: str) -> None:
    """Raise an OptionError unless the option `language` is one of `known`; "" stands for any."""
    language = parameters.get("language", "auto")
    if known and language not in ("auto", known):
        raise OptionError.of("language", f"auto or {known} with this {model}", language)


def codes_of(languages: str) -> tuple[str, ...]:
    """Return the codes of the option `languages`, each once."""
    named = (name for name in languages.split(",") if name.strip())
    return tuple(dict.fromkeys(map(code_of, named)))


def known_to(codes: Sequence[str], sent: str) -> str:
    """Return the languages of a model in words, for an error: all, or those close to what was sent.

    `codes` are those of the model, most spoken first.
    """
    if len(codes) <= _SHORT:
        return ", ".join(codes)
    meant = _meant(codes, sent)
    if meant in codes:
        return f"one of this model's {len(codes)} codes; did you mean {meant}?"
    close = difflib.get_close_matches(sent.lower(), codes, n=3, cutoff=0.5)
    some = ", ".join(close or codes[:8])
    return f"one of this model's {len(codes)} codes ({some}, …)"


def _meant(codes: Sequence[str], sent: str) -> str:
    """Return the code that another spelling, a country (cn) or a misspelt name means, or ""."""
    if (code := code_of(sent)) in codes:
        return code
    text = sent.strip().lower()
    if country := _COUNTRIES.get(text.replace("_", "-").partition("-")[0]):
        return country
    close = difflib.get_close_matches(text, _CODES_BY_NAME, n=1, cutoff=0.8)
    return _CODES_BY_NAME[close[0]] if close else ""
