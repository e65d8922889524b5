"""`conch serve --model-config` against a real tritonserver: whose config it takes."""

import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from conch_command import called
from servers import infer

from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import models_with_config
from conch.wire.errors import ServerError

ROOT = Path(__file__).parents[2]


def has_gpu() -> bool:
    """Report whether one of the overlays would load: a GPU or ONNX Runtime's code for it."""
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    return "CUDAExecutionProvider" in providers or Path("/dev/nvidiactl").exists()


def served_config(url: str, model: str) -> dict:
    with urllib.request.urlopen(f"http://{url}/v2/models/{model}/config", timeout=10) as answer:
        return json.loads(answer.read())


def variant(repository: Path, model: str, name: str, old: str, new: str) -> None:
    """Write a variant of a model's config with a text in it replaced."""
    config = (repository / model / "config.pbtxt").read_text()
    assert old in config
    folder = repository / model / "configs"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.pbtxt").write_text(config.replace(old, new))


@pytest.mark.server
def test_a_variant_takes_the_place_of_config_pbtxt_where_there_is_one(
    identity_repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(identity_repository / "identity", identity_repository / "plain")
    variant(identity_repository, "identity", "two", "KIND_CPU", "KIND_CPU count: 2")
    config = ServerConfig([identity_repository], model_config="two")
    with caplog.at_level("INFO", "conch.launcher"), TritonServer(config) as server:
        counts = {
            model: served_config(server.http_url, model)["instance_group"][0]["count"]
            for model in server.models()
        }
        assert counts == {"identity": 2, "plain": 1}
        assert infer(server.http_url, [1.0]) == [1.0]
    assert "config two: identity; the other models run their config.pbtxt" in caplog.text


@pytest.mark.server
def test_overlays_say_what_this_machine_lacks(tmp_path: Path) -> None:
    """One server tries all three; those that it can serve are in test_gpu_configs.py."""
    if has_gpu():
        pytest.skip("there is CUDA here")
    shipped = ROOT / "component_models" / "ctc_encoder"
    cuda = 'parameters { key: "device" value { string_value: "cuda" } }'
    overlays = {
        "no_device": (shipped / "configs" / "gpu.pbtxt").read_text(),
        "no_backend": (shipped / "configs" / "onnxruntime.pbtxt").read_text(),
        "no_package": (shipped / "config.pbtxt").read_text() + cuda,
    }
    for model, overlay in overlays.items():
        shutil.copytree(shipped, tmp_path / model)
        (tmp_path / model / "configs" / "gpu.pbtxt").write_text(overlay)
    with pytest.raises(ServerError) as error:
        TritonServer(ServerConfig([tmp_path], model_config="gpu")).start()
    assert "model no_device has kind KIND_GPU but no GPUs" in str(error.value)
    assert re.search(r"'no_backend' failed .*'onnxruntime'", str(error.value))
    assert re.search(r"'no_package' failed .*pip install 'onnxruntime-gpu", str(error.value))


def test_a_name_that_no_model_has_is_an_error_that_lists_those_there_are(
    write_model: Callable[..., Path],
) -> None:
    repository = write_model("first", "")
    write_model("second", "")
    with pytest.raises(ServerError, match=r"configs/gpu\.pbtxt; found: none"):
        models_with_config([repository], "gpu")
    for model, name in (("first", "a100"), ("second", "a100"), ("second", "l4")):
        variant(repository, model, name, "KIND_CPU", "KIND_GPU")
    assert models_with_config([repository], "a100") == ("first", "second")
    with pytest.raises(ServerError) as error:
        TritonServer(ServerConfig([repository], model_config="gpu")).start()
    assert str(error.value) == (
        "no model has a configs/gpu.pbtxt; found: a100 (of first, second), l4 (of second)"
    )


def test_the_command_says_which_there_are() -> None:
    done = called("serve", "--model-config", "h100")
    assert done.returncode == 1
    assert "conch serve: no model has a configs/h100.pbtxt; found: gpu (of " in done.stderr


def test_the_option_of_triton_itself_cannot_be_passed_through() -> None:
    with pytest.raises(ServerError, match="--model-config-name is set by Conch itself"):
        ServerConfig(extra_args=["--model-config-name=gpu"])
