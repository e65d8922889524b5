"""What `import conch` offers."""

import subprocess
import sys

import pytest

import conch
from conch.client import AsyncClient, Client, Speech
from conch.wire import errors
from conch.wire.result import Transcript

HEAVY = ("numpy", "tritonclient", "conch.client", "conch.wire")


def test_the_public_names_are_those_of_their_modules() -> None:
    assert (conch.Client, conch.AsyncClient) == (Client, AsyncClient)
    assert conch.Transcript is Transcript
    assert conch.Speech is Speech
    others = set(conch.__all__) - {"Client", "AsyncClient", "Speech", "Transcript"}
    for name in others:
        assert getattr(conch, name) is getattr(errors, name)


def test_every_error_that_a_server_answers_with_is_public() -> None:
    answered = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, errors.TranscriptionError)
    }
    assert len(answered) > 5
    assert answered <= set(conch.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'conch' has no attribute 'Clinet'"):
        _ = conch.Clinet  # type: ignore[attr-defined]


def test_the_import_alone_loads_nothing() -> None:
    code = "import sys, conch; print(conch.__version__, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, *modules = done.stdout.split()
    assert version == conch.__version__
    assert not set(HEAVY) & set(modules)
