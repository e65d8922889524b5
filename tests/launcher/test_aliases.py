"""`conch serve --also-as`: the folders it makes, the names it refuses, and what a server serves."""

import tempfile
from pathlib import Path

import pytest
from servers import ANY_PORTS, infer, serving, traces_of

from conch.cli import main
from conch.launcher import ServerConfig, TritonServer, shipped_repositories
from conch.launcher.repositories import parsed_config
from conch.launcher.variants import check_aliases, with_aliases
from conch.wire.errors import ServerError

SHIPPED = shipped_repositories()


@pytest.fixture
def model(identity_repository: Path) -> Path:
    """Return the folder of a model that answers with its input and is called `speech`."""
    return (identity_repository / "identity").rename(identity_repository / "speech")


def name_in_config(model: Path) -> None:
    path = model / "config.pbtxt"
    path.write_text(f'name: "{model.name}"\n{path.read_text()}')


def made(config: ServerConfig, directory: Path) -> Path:
    """Return the repository that is made for the further names."""
    *_, repository = with_aliases(config, directory).model_repositories
    return Path(repository)


def test_without_other_names_nothing_is_made(tmp_path: Path) -> None:
    config = ServerConfig(SHIPPED)
    assert with_aliases(config, tmp_path) is config
    assert not list(tmp_path.iterdir())


def test_each_name_is_a_folder_that_hands_requests_to_speech(tmp_path: Path) -> None:
    config = ServerConfig(SHIPPED, also_as=["transducer", "infer_pipeline", "transducer"])
    result = with_aliases(config, tmp_path)
    *before, repository = map(Path, result.model_repositories)
    assert tuple(before) == SHIPPED
    assert tmp_path in repository.parents
    assert {path.name for path in repository.iterdir()} == {"transducer", "infer_pipeline"}
    for alias in repository.iterdir():
        code = SHIPPED[0] / "speech_stream" / "1" / "model.py"
        assert (alias / "1" / "model.py").read_text() == code.read_text()
        found_config = parsed_config(alias / "config.pbtxt")
        wanted = parsed_config(SHIPPED[0] / "speech" / "config.pbtxt")
        assert found_config.parameters.pop("host").string_value == "speech"
        assert not found_config.parameters
        wanted.parameters.clear()
        assert found_config == wanted
    assert result.models == ()


def test_they_are_loaded_with_the_models_that_are_named(tmp_path: Path) -> None:
    config = ServerConfig(SHIPPED, models=["speech", "vad"], also_as=["transducer"])
    assert with_aliases(config, tmp_path).models == ("speech", "vad", "transducer")


def test_the_config_is_the_one_that_speech_is_served_by(model: Path, tmp_path: Path) -> None:
    config, variant = model / "config.pbtxt", model / "configs" / "gpu.pbtxt"
    variant.parent.mkdir()
    variant.write_text(config.read_text().replace("KIND_CPU", "KIND_GPU"))
    for name, served in (("gpu", variant), ("l4", config)):
        settings = ServerConfig([model.parent], model_config=name, also_as=["transducer"])
        alias = made(settings, tmp_path / name) / "transducer"
        assert (alias / "config.pbtxt").read_text() == served.read_text()
        assert {path.name for path in alias.iterdir()} == {"1", "config.pbtxt"}


def test_a_name_in_the_config_becomes_the_other_one(model: Path, tmp_path: Path) -> None:
    wanted = parsed_config(model / "config.pbtxt")
    wanted.name = "transducer"
    name_in_config(model)
    config = ServerConfig([model.parent], also_as=["transducer"])
    assert parsed_config(made(config, tmp_path) / "transducer" / "config.pbtxt") == wanted


def test_a_broken_config_is_left_to_triton(model: Path, tmp_path: Path) -> None:
    (model / "config.pbtxt").write_text("backend: {")
    config = ServerConfig([model.parent], also_as=["transducer"])
    alias = made(config, tmp_path) / "transducer"
    assert (alias / "config.pbtxt").read_text() == "backend: {"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "__pycache__", "a/b", "/", "-x", "a b", "é", "a\n", "a" * 129],
)
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ServerError) as refused:
        ServerConfig(SHIPPED, also_as=["transducer", name])
    assert str(refused.value).startswith("--also-as takes names of 1 to 128 letters, digits, ")
    assert str(refused.value).endswith(f"sent: {name!r}")


@pytest.mark.parametrize("name", ["a", "_a", "9", "a" * 128, "sherpa-0.1_EN"])
def test_a_good_name_is_not(name: str) -> None:
    assert ServerConfig(SHIPPED, also_as=[name]).also_as == (name,)


@pytest.mark.parametrize("name", ["speech", "speech_stream", "vad"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    check_aliases(SHIPPED, ["transducer"])
    with pytest.raises(ServerError, match=f"takes new names; .* have a model '{name}'"):
        check_aliases(SHIPPED, ["transducer", name])


def test_without_speech_there_is_nothing_to_name(identity_repository: Path) -> None:
    check_aliases([identity_repository], [])
    config = ServerConfig([identity_repository], also_as=["transducer"])
    with pytest.raises(ServerError, match="--also-as transducer needs the model speech, which no"):
        TritonServer(config).start()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("", "sent: ''"),
        ("transducer,,x", "sent: ''"),
        ("transducer, a/b", "sent: 'a/b'"),
        ("transducer,vad", "the model repositories have a model 'vad'"),
    ],
)
def test_the_command_refuses_them_too(
    names: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *ANY_PORTS, "--also-as", names]) == 1
    assert capsys.readouterr().err.strip().endswith(message)


@pytest.mark.server
def test_a_server_serves_them_and_takes_them_along(model: Path) -> None:
    name_in_config(model)
    arguments = "--model-repository", str(model.parent), "--also-as", "transducer, infer_pipeline"
    with serving(*arguments) as (process, url, name):
        for number, model_name in enumerate(("speech", "transducer", "infer_pipeline")):
            assert infer(url, [float(number)], model_name) == [number]
        (directory,) = Path(tempfile.gettempdir()).glob(f"{name}-*")
        assert len(list(directory.glob("also_as/*/1/model.py"))) == 2
        process.terminate()
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0, log
        assert traces_of(name) == []
        assert (model / "1" / "model.py").is_file()
