"""Languages: English names of those that Whisper knows, and what a wrong code may have meant."""

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

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

LANGUAGES: Mapping[str, str] = MappingProxyType(
    dict(item.split(" ", 1) for item in _NAMES.strip().replace("\n", "|").split("|"))
)
"""Name by code (ISO 639-1, and Whisper's own haw, jw and yue)."""

_SHORT = 12
"""Codes of a model that an error lists in full."""
_OTHER_CODES = {"jv": "jw", "nb": "no", "iw": "he", "fil": "tl", "cmn": "zh"}
"""Whisper's code by that of a standard or a browser."""
# fmt: off
_COUNTRIES = {
    "cn": "zh", "cz": "cs", "dk": "da", "gb": "en", "gr": "el", "ir": "fa", "jp": "ja", "kr": "ko",
    "se": "sv", "ua": "uk", "us": "en", "vn": "vi",
}
# fmt: on
"""Code of the language by that of a country, which people send in its place."""
_OTHER_NAMES = {
    "mandarin": "zh",
    "cantonese": "yue",
    "castilian": "es",
    "flemish": "nl",
    "farsi": "fa",
    "filipino": "tl",
    "burmese": "my",
    "haitian": "ht",
    "moldavian": "ro",
    "punjabi": "pa",
    "panjabi": "pa",
    "pushto": "ps",
    "sinhalese": "si",
    "valencian": "ca",
}


def codes_of(languages: str) -> tuple[str, ...]:
    """Return the codes of the option `languages`, each once."""
    codes = (code.strip() for code in languages.split(","))
    return tuple(dict.fromkeys(code for code in codes if code))


def known_to(codes: Sequence[str], sent: str) -> str:
    """Return the languages of a model in words, for an error: all, or those close to what was sent.

    Args:
        codes: Codes of the model's languages, most spoken first.
        sent: What was sent in place of one of them.
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
    """Return the code that a name (german), a region (zh-CN) or another code (nb) means, or ""."""
    text = sent.strip().lower()
    bare = text.replace("_", "-").partition("-")[0]
    if bare in codes:
        return bare
    if other := _OTHER_CODES.get(bare) or _COUNTRIES.get(bare):
        return other
    names = {name: code for code, name in LANGUAGES.items()} | _OTHER_NAMES
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.8)
    return names[close[0]] if close else ""
