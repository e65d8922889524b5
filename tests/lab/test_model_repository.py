from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.component.parameters import read_parameters
from conch.families.silero.vad import SileroConfig
from conch.launcher.repositories import check_repository
from conch.wire.errors import BenchError
from lab.model_repository import model_args, own_repositories, read_config, repository_of
from lab.settings import read_settings


def config_of(repository: Path, model: str) -> Any:
    text = (repository / model / "config.pbtxt").read_text()
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_the_laboratory_has_repositories_of_its_own() -> None:
    names = [path.name for path in own_repositories()]
    assert names == ["blocking_bls", "ensemble"]


def test_a_repository_holds_the_models_asked_for_with_their_settings() -> None:
    settings = read_settings(
        "speech_blocking.instances=4,attention_encoder.min_window_s=20,"
        "attention_encoder.dynamic_batching.max_queue_delay_microseconds=1000,"
        "attention_encoder.max_batch_size=3"
    )
    models = ("speech_blocking", "vad", "attention_encoder")
    with repository_of(models, settings) as repository:
        check_repository(repository)
        assert sorted(path.name for path in repository.iterdir()) == sorted(models)
        assert config_of(repository, "speech_blocking").instance_group[0].count == 4
        assert (repository / "speech_blocking" / "1" / "model.py").is_file()
        assert config_of(repository, "vad") == read_config("vad")
        encoder, shipped = (
            config_of(repository, "attention_encoder"),
            read_config("attention_encoder"),
        )
        assert encoder.parameters["min_window_s"].string_value == "20"
        assert encoder.max_batch_size == 3
        assert encoder.dynamic_batching.max_queue_delay_microseconds == 1000
        assert encoder.dynamic_batching.default_queue_policy.timeout_action == (
            shipped.dynamic_batching.default_queue_policy.timeout_action
        )
        assert encoder.input == shipped.input
    assert not repository.exists()


def test_another_whisper_is_named_by_encoder_and_decoder_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    models = ("vad", "attention_encoder", "attention_decoder")
    settings = read_settings(",".join(f"{model}.model={tmp_path}" for model in models[1:]))
    with repository_of(models, settings) as repository:
        check_repository(repository)
        for model in models[1:]:
            parameters = config_of(repository, model).parameters
            assert parameters["model"].string_value == str(tmp_path)
        assert config_of(repository, "vad").parameters == read_config("vad").parameters
    assert read_config("attention_encoder").parameters["model"].string_value == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vad", "a setting is MODEL.NAME=VALUE; sent: 'vad'"),
        ("vad.threads=1", "cannot set vad.threads=1: vad takes its parameters"),
        ("vad.max_batch_size=many", "cannot set vad.max_batch_size=many: .*many"),
        ("vad.instances=x", "cannot set vad.instances=x"),
        ("vad.instances=0", "cannot set vad.instances=0: .* one instance at least"),
        ("vad.instance_group.count=4", "cannot set .*: instance_group has several values"),
        ("vad.max_batch_size.count=4", "cannot set vad.max_batch_size.count=4"),
        ("speech.instances=2", "cannot set speech.instances=2: the models are vad"),
    ],
)
def test_settings_that_cannot_be_made_are_reported(text: str, message: str) -> None:
    with pytest.raises(BenchError, match=message), repository_of(("vad",), read_settings(text)):
        pass


def test_an_ensemble_keeps_its_empty_version() -> None:
    with repository_of(("attention_ensemble",)) as repository:
        assert (repository / "attention_ensemble" / "1").is_dir()


def test_a_model_that_is_nowhere_is_named() -> None:
    with pytest.raises(BenchError, match="no model speach in "), repository_of(("speach",)):
        pass


def test_parameters_are_read_as_triton_passes_them() -> None:
    args = model_args(read_config("vad"))
    assert read_parameters(SileroConfig, args) == SileroConfig()
