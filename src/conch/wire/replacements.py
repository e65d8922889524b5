r"""The rules of the option `replace`: a heard form to a written one.

    conch=>Conch; new york city=>NYC; um=>

Semicolons separate rules, and `=>` the two forms. A backslash takes the meaning from what follows:
`\;`, `\=>` and `\\`.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from conch.wire.errors import OptionError
from conch.wire.joining import separator
from conch.wire.limits import clipped

MAX_RULES = 256
MAX_FORM = 200
_RULES = re.compile(r"((?:\\.|[^\\;])*)(?:;|$)", re.DOTALL)
_FORMS = re.compile(r"((?:\\.|[^\\])*?)=>(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(=>|[;\\])")
_STRAY = re.compile(r"\\(?!=>|[;\\])")


@dataclass(frozen=True, slots=True)
class Replacements:
    """Rules that were read."""

    pattern: re.Pattern[str]
    """Finds the heard forms in a `findable` text, the longest first; each is a group."""
    written: tuple[str, ...]
    """The written forms, in the order of the groups."""


@lru_cache(maxsize=32)
def read_replacements(rules: str) -> Replacements | None:
    """Return the rules of the option's text; None if there is none."""
    written: dict[str, tuple[str, str]] = {}
    for number, rule in enumerate(_split(rules), 1):
        if number > MAX_RULES:
            raise OptionError(f"option 'replace' takes at most {MAX_RULES} rules")
        spoken, new = _forms(rule, number)
        spoken = " ".join(spoken.split())
        if spoken.lower() in written:
            raise _wrong(number, rule, "an earlier rule has this heard form, whatever its case")
        # As it was sent: İ in lower case has two characters, which no pattern takes for one.
        written[spoken.lower()] = spoken, new
    if not written:
        return None
    return replacements_of(written.values())


def replacements_of(forms: Iterable[tuple[str, str]]) -> Replacements:
    """Return rules for pairs of a heard and a written form, at least one."""
    longest_first = sorted(forms, key=lambda pair: -len(pair[0]))
    pattern = "|".join(_pattern(spoken) for spoken, _ in longest_first)
    return Replacements(re.compile(pattern, re.IGNORECASE), tuple(new for _, new in longest_first))


def findable(text: str) -> str:
    r"""Return a text of the same length in which `\w` and `\W` show where words end.

    Vowel signs and accents that stand alone are parts of words, which `\w` does not know. A word
    may end at any character of a script without spaces. Others stand for both.
    """
    return text.translate(_STAND_INS)


class _StandIns(dict[int, int]):
    """Stand-ins for characters in a `findable` text, by their code points."""

    def __init__(self) -> None:
        super().__init__()
        # Neither have letter case; the first are letters, the others, for private use, are none.
        self._letters, self._others = count(0x20000), count(0xF0000)

    def __missing__(self, code: int) -> int:
        char = chr(code)
        if not char.isspace() and not separator(char, char):
            self[code] = next(self._others)
        elif unicodedata.category(char)[0] == "M":
            self[code] = next(self._letters)
        else:
            self[code] = code
        return self[code]


_STAND_INS = _StandIns()


def _split(rules: str) -> list[str]:
    if re.search(r"(?<!\\)(?:\\\\)*\\$", rules):
        raise OptionError("option 'replace' ends with a backslash, which takes ';', '=>' or '\\'")
    return [rule.strip() for rule in _RULES.findall(rules) if rule.strip()]


def _forms(rule: str, number: int) -> tuple[str, str]:
    match = _FORMS.fullmatch(rule)
    if match is None:
        raise _wrong(number, rule, "it has no '=>' between the heard and the written form")
    spoken, new = (part.strip() for part in match.groups())
    if _FORMS.fullmatch(new):
        raise _wrong(number, rule, r"it has two '=>'; ';' separates rules, and '\=>' is a form's")
    if _STRAY.search(_ESCAPED.sub("", rule)):
        raise _wrong(number, rule, r"a backslash takes ';', '=>' or '\'")
    spoken, new = (_ESCAPED.sub(r"\1", part) for part in (spoken, new))
    if not spoken:
        raise _wrong(number, rule, "it has no heard form before '=>'")
    if (longest := max(len(spoken), len(new))) > MAX_FORM:
        raise _wrong(number, rule, f"a form takes at most {MAX_FORM} characters; has: {longest}")
    # A line end would end a cue of subtitles.
    return spoken, " ".join(new.split())


def _pattern(spoken: str) -> str:
    """Return the pattern of a heard form: of whole words, where its script has spaces."""
    spoken = findable(spoken)
    text = r"\s+".join(map(re.escape, spoken.split()))
    before = r"(?<!\w)" if spoken[0].isalnum() else ""
    after = r"(?!\w)" if spoken[-1].isalnum() else ""
    return f"{before}({text}){after}"


def _wrong(number: int, rule: str, why: str) -> OptionError:
    return OptionError(f"option 'replace', rule {number} ({clipped(rule)!r}): {why}")
