"""The rules of the option `replace` as they are written."""

import pytest

from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.replacements import MAX_FORM, MAX_RULES, read_replacements


def found(rules: str) -> tuple[str, ...]:
    read = read_replacements(rules)
    return read.written if read else ()


def test_rules_are_separated_by_semicolons_and_spaces_do_not_count():
    assert found(" conch => Conch ;; new  york city=>NYC; ") == ("NYC", "Conch")
    assert found("nyc=>New\n York") == ("New York",)
    assert found("") == found(" ; ") == ()


def test_a_form_may_become_nothing():
    assert found("um=>") == ("",)


def test_a_backslash_takes_the_meaning_away():
    assert found(r"arrow=>\=>; and=>\;; slash=>\\") == ("=>", "\\", ";")
    read = read_replacements(r"a\;b=>c; =\=>x=>y")
    assert read is not None
    assert read.pattern.fullmatch("a;b") and read.pattern.fullmatch("==>x")


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("a=>b; conch", "rule 2 ('conch'): it has no '=>'"),
        ("=>b", "rule 1 ('=>b'): it has no heard form"),
        ("a=>b=>c", "rule 1 ('a=>b=>c'): it has two '=>'"),
        ("a=>b; A =>c", "rule 2 ('A =>c'): an earlier rule has this heard form"),
        (r"a\b=>c", "a backslash takes ';', '=>' or '\\'"),
        ("a=>b\\", "ends with a backslash"),
        (f"{'x' * (MAX_FORM + 1)}=>b", f"at most {MAX_FORM} characters; has: {MAX_FORM + 1}"),
        (";".join(f"w{i}=>x" for i in range(MAX_RULES + 1)), f"takes at most {MAX_RULES} rules"),
    ],
)
def test_what_does_not_parse_is_an_error_of_the_option_that_names_the_rule(rules, problem):
    with pytest.raises(OptionError) as refused:
        RecognitionOptions.parse({"replace": rules})
    assert str(refused.value).startswith("option 'replace'")
    assert problem in str(refused.value)


def test_as_many_rules_as_allowed():
    assert len(found(";".join(f"w{i}=>x" for i in range(MAX_RULES)))) == MAX_RULES
