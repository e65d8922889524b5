"""Which requests a server answers before it counts as ready."""

from conch.launcher.warmth import request_for, requests_for
from conch.wire.needs import PATHS, components_of, components_of_path
from conch.wire.options import RecognitionOptions

ALL = {
    *(model for path in PATHS for model in components_of_path(path)),
    *("rescorer", "neural_rescorer"),
}


def called(models: set[str]) -> set[str]:
    """Return the components that the requests for these models call."""
    return {
        model
        for options in requests_for(models)
        for model in components_of(RecognitionOptions.parse(options, live="mode" in options))
    }


def test_every_component_is_called_by_few_requests() -> None:
    assert called(ALL) == ALL
    assert len(requests_for(ALL)) == 10


def test_a_server_with_fewer_models_is_asked_for_what_it_has() -> None:
    for path in PATHS:
        models = set(components_of_path(path))
        assert called(models) == models, path
    assert called(ALL - {"neural_rescorer"}) == ALL - {"neural_rescorer"}
    assert requests_for({"speech"}) == []


def test_a_request_has_the_options_and_the_samples() -> None:
    for options in requests_for(ALL):
        sent = request_for(options, [1] * 160)
        assert sent["inputs"][0]["data"] == [1] * 160
        assert sent["inputs"][0]["shape"] == [1, 160]
        assert options.items() <= sent["parameters"].items()
        assert ("sequence_id" in sent["parameters"]) == ("mode" in options)
