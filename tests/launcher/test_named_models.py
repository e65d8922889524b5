"""`--model NAME=FOLDER`: what it makes, and refuses before a server starts."""

from pathlib import Path

import pytest
from toy_piper import write_piper
from whisper_toys import whisper_toy

from conch.families.whisper import COMPONENTS
from conch.launcher import ServerConfig, shipped_repositories
from conch.launcher.repositories import model_names, parsed_config
from conch.launcher.variants import copies, with_named_folders, with_named_models
from conch.wire.errors import ConfigError, ServerError

SHIPPED = shipped_repositories()


def test_each_component_is_copied_with_the_folder(tmp_path: Path) -> None:
    toy = whisper_toy(tmp_path / "toy")
    config = with_named_folders(ServerConfig(SHIPPED, named={"mine": str(toy), "other": "tiny.en"}))
    made = Path(with_named_models(config, tmp_path / "made").model_repositories[-1])
    names = {f"{component}.{name}" for component in COMPONENTS for name in ("mine", "other")}
    assert {*copies(config)} == {*model_names([made])} == names
    for component in COMPONENTS:
        copy = made / f"{component}.mine"
        assert (copy / "1" / "model.py").samefile(SHIPPED[1] / component / "1" / "model.py")
        parsed = parsed_config(copy / "config.pbtxt")
        assert parsed is not None
        assert parsed.parameters["model"].string_value == str(toy)


def test_without_names_nothing_is_made(tmp_path: Path) -> None:
    config = ServerConfig(SHIPPED)
    assert with_named_models(config, tmp_path) is config
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.b", "-a", "__a", "", "a b", "x" * 129])
def test_a_name_that_triton_or_a_url_would_misread_is_refused(name: str) -> None:
    with pytest.raises(ServerError, match="a name has 1 to 128 letters, digits"):
        with_named_folders(ServerConfig(SHIPPED, named={name: "tiny.en"}))


def test_the_names_of_conchs_own_models_are_refused() -> None:
    for name in ("conch", "conch-mine"):
        with pytest.raises(ServerError, match="names that begin with conch-, are Conch's own"):
            with_named_folders(ServerConfig(SHIPPED, named={name: "tiny.en"}))


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=f"^--model mine={tmp_path}: .* holds no complete model: "
    ):
        with_named_folders(ServerConfig(SHIPPED, named={"mine": str(tmp_path)}))
    with pytest.raises(ConfigError, match=r"^--model mine=nowhere: no folder 'nowhere', nor a mod"):
        with_named_folders(ServerConfig(SHIPPED, named={"mine": "nowhere"}))


def test_without_the_components_it_is_refused(identity_repository: Path) -> None:
    config = ServerConfig([identity_repository], named={"mine": "tiny.en"})
    with pytest.raises(ServerError, match=r"^--model mine=tiny.en needs the model attention_enc"):
        with_named_folders(config)


def test_voices_have_names_of_their_own(tmp_path: Path) -> None:
    write_piper(tmp_path)
    with pytest.raises(ServerError, match=f"Piper has names of its own: --piper {tmp_path}"):
        with_named_folders(ServerConfig(SHIPPED, named={"mine": str(tmp_path)}))
