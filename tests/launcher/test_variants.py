"""`--whisper` and `--moonshine`: what they make, and refuse before a server starts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ctc_toys import icefall
from toy_piper import HOP, write_piper
from transducer_toys import zipformer2
from whisper_toys import whisper_toy

from conch.families import VOICES, ctc, decoders, moonshine, transducer
from conch.families.whisper import COMPONENTS
from conch.launcher import ServerConfig, TritonServer, loaded_models, shipped_repositories
from conch.launcher.loaded_models import with_weights
from conch.launcher.repositories import model_names, parsed_config
from conch.launcher.variants import (
    components_with_weights,
    voices_environment,
    with_chosen_weights,
    with_weight_folders,
)
from conch.wire.errors import ConfigError, ServerError
from conch.wire.needs import components_to_serve, decoder_of_chosen

SHIPPED = shipped_repositories()


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return whisper_toy(tmp_path / 'a "toy"')


def made(config: ServerConfig, directory: Path) -> ServerConfig:
    directory.mkdir()
    return with_chosen_weights(with_weight_folders(config), directory)


def test_without_a_choice_nothing_is_made(tmp_path: Path) -> None:
    config = ServerConfig(SHIPPED)
    assert made(config, tmp_path / "made") is config
    assert not list((tmp_path / "made").iterdir())


@pytest.mark.parametrize("model_config", ["", "gpu"])
def test_both_components_get_the_folder_and_keep_the_rest(
    tmp_path: Path, toy: Path, model_config: str
) -> None:
    config = ServerConfig(SHIPPED, weights={"whisper": str(toy)}, model_config=model_config)
    result = made(config, tmp_path / "made")
    bls, components = map(Path, result.model_repositories)
    assert bls == SHIPPED[0]
    assert model_names([components]) == model_names([SHIPPED[1]])
    for name in model_names([components]):
        source = SHIPPED[1] / name
        assert (components / name / "1" / "model.py").samefile(source / "1" / "model.py")
        if name not in COMPONENTS:
            assert (components / name).samefile(source)
            continue
        assert not (components / name / "configs").exists()
        path = source / "configs" / "gpu.pbtxt" if model_config else source / "config.pbtxt"
        config_there, expected = (
            parsed_config(components / name / "config.pbtxt"),
            parsed_config(path),
        )
        assert config_there is not None and expected is not None
        assert config_there.parameters["model"].string_value == str(toy)
        config_there.parameters["model"].string_value = ""
        assert config_there == expected


def test_a_repository_of_ones_own_stays_beside(
    tmp_path: Path, toy: Path, identity_repository: Path
) -> None:
    config = ServerConfig((identity_repository, *SHIPPED), weights={"whisper": str(toy)})
    first, second, third = made(config, tmp_path / "made").model_repositories
    assert (first, second) == (identity_repository, SHIPPED[0])
    assert third not in SHIPPED


def test_without_the_components_it_is_refused(toy: Path, identity_repository: Path) -> None:
    with pytest.raises(ServerError, match=r"^--whisper needs the model attention_encoder, which"):
        with_weight_folders(ServerConfig([identity_repository], weights={"whisper": str(toy)}))


def test_a_component_of_another_kind_is_refused(toy: Path, identity_repository: Path) -> None:
    (identity_repository / "identity").rename(identity_repository / "attention_encoder")
    with pytest.raises(ServerError, match=r"sets the parameter 'model' of attention_encoder, and "):
        with_weight_folders(ServerConfig([identity_repository], weights={"whisper": str(toy)}))


def test_a_half_model_starts_nothing(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toy / "tokenizer.json").unlink()
    monkeypatch.setattr(
        "conch.launcher.triton_server.ServerProcess", lambda *_, **__: pytest.fail("started")
    )
    server = TritonServer(ServerConfig(SHIPPED, weights={"whisper": str(toy)}))
    with pytest.raises(ConfigError, match=r"it lacks tokenizer\.json; copy it from"):
        server.start()


def test_weights_of_ones_own_need_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = dict.fromkeys(
        moonshine.COMPONENTS, replace(moonshine.PACKAGE, module="no_such_package")
    )
    monkeypatch.setattr(loaded_models, "optional", lambda: absent)
    (tmp_path / "mine").mkdir()
    for name in moonshine.GRAPH_FILES:
        (tmp_path / "mine" / name).write_bytes(b"")
    config = ServerConfig(SHIPPED, weights={"moonshine": str(tmp_path / "mine")})
    kept = with_weights(with_weight_folders(config))
    assert {*moonshine.COMPONENTS} <= {*kept.models}, "nothing of it is left out"
    result = made(kept, tmp_path / "made")
    for name in moonshine.COMPONENTS:
        path = Path(result.model_repositories[1]) / name / "config.pbtxt"
        parsed = parsed_config(path)
        assert parsed is not None
        assert parsed.parameters["model"].string_value == str(tmp_path / "mine")


def test_an_unknown_kind_is_refused() -> None:
    kinds = "transducer, paraformer, paraformer_online, sensevoice, kaldi, wenet, ctc"
    message = f"takes the keys moonshine, whisper, {kinds}, piper; sent: 'vosk'"
    with pytest.raises(ServerError, match=message):
        with_weight_folders(ServerConfig(SHIPPED, weights={"vosk": "mine"}))


def test_where_a_folder_of_ctc_is_chosen_it_writes_all(tmp_path: Path) -> None:
    folder = str(icefall(tmp_path / "toy"))
    config = with_weights(with_weight_folders(ServerConfig(SHIPPED, weights={"ctc": folder})))
    assert {*ctc.OFFLINE, *ctc.LIVE} <= {*config.models}
    assert {*COMPONENTS, *moonshine.COMPONENTS}.isdisjoint(config.models)
    chosen = components_with_weights(config).keys()
    assert decoder_of_chosen(chosen) == "ctc"
    assert decoder_of_chosen({*chosen, *COMPONENTS}) == ""
    assert {*components_to_serve({}, chosen=chosen)} >= {*ctc.OFFLINE}
    assert {*components_to_serve({}, live=True, chosen=chosen)} >= {*ctc.LIVE}


def test_where_a_transducer_is_chosen_it_hears_live_audio_too(tmp_path: Path) -> None:
    folder = str(zipformer2(tmp_path / "toy"))
    config = with_weights(
        with_weight_folders(ServerConfig(SHIPPED, weights={"transducer": folder}))
    )
    assert {*transducer.OFFLINE, *transducer.LIVE, "ctc_encoder"} <= {*config.models}
    others = {*COMPONENTS, *moonshine.COMPONENTS, *decoders()["wfst"].live}
    assert others.isdisjoint(config.models)


def test_where_none_is_chosen_there_is_none() -> None:
    models = with_weights(ServerConfig(SHIPPED)).models
    assert not [name for name in models if name.startswith("transducer")]


def test_where_whisper_is_chosen_it_is_the_default(toy: Path) -> None:
    config = with_weights(with_weight_folders(ServerConfig(SHIPPED, weights={"whisper": str(toy)})))
    assert {*COMPONENTS} <= {*config.models}
    assert {*moonshine.COMPONENTS}.isdisjoint(config.models)
    named = ServerConfig(SHIPPED, weights={"whisper": str(toy)}, models=moonshine.COMPONENTS)
    assert with_weights(with_weight_folders(named)).models == moonshine.COMPONENTS


def test_a_server_is_told_of_the_voices_that_are_chosen(tmp_path: Path) -> None:
    write_piper(tmp_path, "joe")
    config = with_weight_folders(ServerConfig(SHIPPED, weights={"piper": str(tmp_path)}))
    (voice,) = json.loads(voices_environment(config)[VOICES])
    assert (voice["name"], voice["language"], voice["frame_samples"]) == ("joe", "en-US", HOP)
    assert voices_environment(ServerConfig(SHIPPED)) == {}
