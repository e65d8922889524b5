"""Which models a server loads at its start, and which later."""

from dataclasses import replace

from conch.families import all_components
from conch.launcher.admin import Restriction
from conch.launcher.config import ServerConfig, server_command
from conch.launcher.endpoints import Endpoints
from conch.launcher.installation import Installation
from conch.launcher.loaded_models import on_demand, settings_for
from conch.launcher.preparation import prepare
from conch.launcher.process import Workspace
from conch.launcher.repositories import model_names, shipped_repositories
from conch.wire.entry_points import ENTRY_POINTS, FITTING, SYNTHESIS, OnDemandSettings
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

SHIPPED = model_names(shipped_repositories())
DEFAULTS = {
    *components_of(RecognitionOptions.parse({})),
    *components_of(RecognitionOptions.parse({}, live=True)),
}


def test_what_requests_without_options_need_is_loaded_at_the_start() -> None:
    later = on_demand(SHIPPED)
    assert set(SHIPPED).difference(later) == {*ENTRY_POINTS, *SYNTHESIS, FITTING, *DEFAULTS}
    assert len(later) > len(SHIPPED) / 3


def test_models_that_are_not_declared_are_loaded_at_the_start() -> None:
    assert "profanity_filter" not in on_demand((*SHIPPED, "profanity_filter"))


def test_of_fewer_models_fewer_are_loaded_later() -> None:
    assert on_demand(["speech", "vad", "rescorer"]) == ("rescorer",)
    assert on_demand(["speech", *DEFAULTS]) == ()


def test_without_speech_nothing_is_loaded_later() -> None:
    assert on_demand([component.name for component in all_components()]) == ()


def test_speech_learns_how_to_load_them() -> None:
    restricted = (
        Restriction("--http-restricted-api", ("trace", "model-repository"), "x-key", "secret"),
        Restriction("--grpc-restricted-protocol", ("model-repository",), "x-other", "secret"),
    )
    endpoints = Endpoints("0.0.0.0", 8000, 8001, 8002, restricted)
    settings = settings_for(("rescorer",), endpoints)
    assert settings.url == "http://127.0.0.1:8000/v2/repository/models"
    assert settings.headers == {"x-key": "secret"}
    assert "secret" not in repr(settings)
    read = OnDemandSettings.of({"HOME": "/", **settings.to_environment()})
    assert (set(read.models), read.url, read.headers) == (
        {"rescorer"},
        settings.url,
        settings.headers,
    )


def test_without_such_models_there_is_nothing_to_learn() -> None:
    assert settings_for((), Endpoints("127.0.0.1", 1, 2, 3)).to_environment() == {}
    assert OnDemandSettings.of({}) == OnDemandSettings()


def test_without_models_to_load_later_all_must_be_ready() -> None:
    asked = ServerConfig(
        shipped_repositories(), on_demand=True, http_port=0, grpc_port=0, metrics_port=0
    )
    fewer = replace(asked, models=("speech", *DEFAULTS))
    callers = replace(asked, extra_args=["--load-model=vad"])
    for config, is_on_demand in ((asked, True), (fewer, False), (callers, False)):
        prepared = prepare(config, "")
        assert bool(prepared.on_demand) == prepared.config.on_demand == is_on_demand


def test_a_model_that_is_loaded_later_leaves_the_server_ready(tmp_path) -> None:
    for is_on_demand, said in ((True, "false"), (False, "true")):
        command = server_command(
            ServerConfig(["a"], on_demand=is_on_demand),
            Installation(tmp_path / "tritonserver"),
            Endpoints("127.0.0.1", 1, 2, 3),
            workspace=Workspace("conch-x", tmp_path),
            restricted=[],
        )
        assert f"--strict-readiness={said}" in command


def test_a_model_whose_weights_somebody_chose_is_loaded_at_the_start() -> None:
    later = on_demand(SHIPPED, ("attention_encoder", "attention_decoder"))
    assert {"attention_encoder", "attention_decoder"}.isdisjoint(later)
    assert "neural_rescorer" in later
