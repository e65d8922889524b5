from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.acoustic.silero import SileroConfig
from conch.bench.repositories import model_args, read_config, repository_of
from conch.errors import BenchError
from conch.parameters import read_parameters
from conch.server.repositories import check_repository


def instances(repository: Path, model: str) -> int:
    text = (repository / model / "config.pbtxt").read_text()
    return text_format.Parse(text, model_config_pb2.ModelConfig()).instance_group[0].count


def test_a_repository_holds_the_models_asked_for_with_their_instances() -> None:
    with repository_of(("speech_blocking", "vad"), 4) as repository:
        check_repository(repository)
        assert sorted(path.name for path in repository.iterdir()) == ["speech_blocking", "vad"]
        assert instances(repository, "speech_blocking") == 4
        assert instances(repository, "vad") == 1
        assert (repository / "speech_blocking" / "1" / "model.py").is_file()
    assert not repository.exists()


def test_another_whisper_is_named_by_encoder_and_decoder_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    def parameters(repository: Path, model: str) -> Any:
        text = (repository / model / "config.pbtxt").read_text()
        return text_format.Parse(text, model_config_pb2.ModelConfig()).parameters

    models = ("vad", "attention_encoder", "attention_decoder")
    with repository_of(models, whisper=tmp_path) as repository:
        check_repository(repository)
        for model in models[1:]:
            assert parameters(repository, model)["model"].string_value == str(tmp_path)
        assert parameters(repository, "vad") == read_config("vad").parameters
    assert read_config("attention_encoder").parameters["model"].string_value == ""


def test_an_ensemble_keeps_its_empty_version() -> None:
    with repository_of(("attention_ensemble",)) as repository:
        assert (repository / "attention_ensemble" / "1").is_dir()


def test_a_model_that_is_nowhere_is_named() -> None:
    with pytest.raises(BenchError, match="no model speach in "), repository_of(("speach",)):
        pass


def test_parameters_are_read_as_triton_passes_them() -> None:
    args = model_args(read_config("vad"))
    assert read_parameters(SileroConfig, args) == SileroConfig()
