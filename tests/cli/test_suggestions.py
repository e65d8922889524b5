"""A flag that does not exist is named by the command that was meant to take it."""

import pytest
from refusals import Refused


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ("serve --http-prot 1", "conch serve: error: unrecognized", "did you mean --http-port?"),
        ("transcribe a.wav --beem-size=3", "conch transcribe: error:", "mean --beam-size?"),
        ("gateway keys add anna --stream 3 --x", "conch gateway keys add: error:", "add --help"),
        ("stream --diarize a.wav", "arguments: --diarize; conch stream --help lists all", ""),
        ("models get base --hlp", "arguments: --hlp", "did you mean --help?"),
        ("transcrib a.wav", "conch: error: no command 'transcrib'", "did you mean transcribe?"),
        ("models gett base", "conch models: error: no command 'gett'", "did you mean get?"),
        (
            "serve --model a=",
            "argument --model: [NAME=]MODEL, as fast=my_folder; got 'a='",
            "--help",
        ),
        ("serve --model =base", "argument --model: [NAME=]MODEL", "got '=base'"),
        ("xyz", "conch: error: no command 'xyz'; conch --help lists all", ""),
    ],
)
def test_an_unknown_flag_is_refused_with_the_closest_one(
    refused: Refused, line: str, problem: str, hint: str
) -> None:
    (told,) = refused(*line.split()).splitlines()
    assert problem in told and hint in told
