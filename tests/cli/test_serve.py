import pytest

from conch.cli import main
from conch.cli.serve import models_named
from conch.wire.errors import ServerError


@pytest.mark.parametrize(
    ("names", "models"),
    [
        ("vad, rescorer", {"vad", "rescorer"}),
        ("attention", {"vad", "attention_encoder", "attention_decoder"}),
        (
            "streaming,ctc_encoder",
            {"vad", "ctc_streaming_encoder", "ctc_streaming_decoder", "ctc_encoder"},
        ),
        ("mine", {"mine"}),
    ],
)
def test_models_are_named_one_by_one_or_by_path(names: str, models: set[str]) -> None:
    assert set(models_named(names)) == models | {"speech", "speech_stream"}


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--http-port", "0", "--models", "attention,rescore"]) == 1
    assert capsys.readouterr().err == (
        "conch serve: no model 'rescore' in the model repositories; did you mean rescorer?\n"
    )


def test_a_misspelt_path_is_distinguished_from_a_model():
    with pytest.raises(ServerError, match="no path or model 'two_pas'; did you mean two_pass"):
        models_named("two_pas")
