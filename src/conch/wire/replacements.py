r"""The rules of the option `replace`: a heard form to a written one.

    conch=>Conch; new york city=>NYC; um=>

Semicolons separate rules, and `=>` the two forms. A backslash takes the meaning from what follows:
`\;`, `\=>` and `\\`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from conch.wire.errors import OptionError
from conch.wire.limits import clipped
from conch.wire.result import Word, text_of_words

MAX_RULES = 256
"""Rules of a request."""
MAX_FORM = 200
"""Characters of a form."""
_RULES = re.compile(r"((?:\\.|[^\\;])*)(?:;|$)", re.DOTALL)
_FORMS = re.compile(r"((?:\\.|[^\\])*?)=>(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(=>|[;\\])")
_STRAY = re.compile(r"\\(?!=>|[;\\])")


@dataclass(frozen=True, slots=True)
class Replacements:
    """Rules that were read."""

    pattern: re.Pattern[str]
    """Finds the heard forms, the longest first; each is a group."""
    written: tuple[str, ...]
    """The written forms, in the order of the groups."""


@lru_cache(maxsize=32)
def read_replacements(rules: str) -> Replacements | None:
    """Return the rules of an option's text; None if there is none.

    Args:
        rules: The option's text.

    Raises:
        OptionError: a rule does not parse, or there are too many.
    """
    written: dict[str, str] = {}
    for number, rule in enumerate(_split(rules), 1):
        if number > MAX_RULES:
            raise OptionError(f"option 'replace' takes at most {MAX_RULES} rules")
        heard, new = _forms(rule, number)
        heard = " ".join(heard.lower().split())
        if heard in written:
            raise _wrong(number, rule, "an earlier rule has this heard form, whatever its case")
        written[heard] = new
    if not written:
        return None
    longest_first = sorted(written, key=lambda heard: (-len(heard), heard))
    pattern = re.compile("|".join(map(_pattern, longest_first)), re.IGNORECASE)
    return Replacements(pattern, tuple(written[heard] for heard in longest_first))


def _split(rules: str) -> list[str]:
    if re.search(r"(?<!\\)(?:\\\\)*\\$", rules):
        raise OptionError("option 'replace' ends with a backslash, which takes ';', '=>' or '\\'")
    return [rule.strip() for rule in _RULES.findall(rules) if rule.strip()]


def _forms(rule: str, number: int) -> tuple[str, str]:
    """Return the heard and the written form of a rule.

    Raises:
        OptionError: it has no `=>` or two, no heard form, too long a form, or a stray backslash.
    """
    found = _FORMS.fullmatch(rule)
    if found is None:
        raise _wrong(number, rule, "it has no '=>' between the heard and the written form")
    heard, new = (part.strip() for part in found.groups())
    if _FORMS.fullmatch(new):
        raise _wrong(number, rule, r"it has two '=>'; ';' separates rules, and '\=>' is a form's")
    if _STRAY.search(_ESCAPED.sub("", rule)):
        raise _wrong(number, rule, r"a backslash takes ';', '=>' or '\'")
    heard, new = (_ESCAPED.sub(r"\1", part) for part in (heard, new))
    if not heard:
        raise _wrong(number, rule, "it has no heard form before '=>'")
    if (longest := max(len(heard), len(new))) > MAX_FORM:
        raise _wrong(number, rule, f"a form takes at most {MAX_FORM} characters; has: {longest}")
    # A line end would end a cue of subtitles.
    return heard, " ".join(new.split())


def _pattern(heard: str) -> str:
    """Return the pattern of a heard form: of whole words, where its script has spaces."""
    text = r"\s+".join(map(re.escape, heard.split()))
    before = r"(?<!\w)" if _has_edge(heard[0]) else ""
    after = r"(?!\w)" if _has_edge(heard[-1]) else ""
    return f"{before}({text}){after}"


def _has_edge(char: str) -> bool:
    """Return whether a character is of words that have spaces between them."""
    word = Word(char, 0.0, 0.0, 1.0)
    return char.isalnum() and text_of_words((word, word)) != char + char


def _wrong(number: int, rule: str, why: str) -> OptionError:
    return OptionError(f"option 'replace', rule {number} ({clipped(rule)!r}): {why}")
