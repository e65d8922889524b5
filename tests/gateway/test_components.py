"""GET /v1/components: what a request with the fields of the query needs, by the server's rules."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from http_answers import Answer, answer_to, asked
from loop_gateway import LoopGateway

from conch.wire.needs import components_for, components_of, components_that_speak, needed_for
from conch.wire.options import RecognitionOptions

ROOT = Path(__file__).parents[2]
OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"vad": False},
    *({"decoder": decoder} for decoder in ("attention", "ctc", "wfst")),
    *(
        {"decoder": decoder, "accuracy": accuracy}
        for decoder in ("attention", "ctc", "wfst")
        for accuracy in ("fast", "balanced", "best")
    ),
    {"rescore": True},
    {"rescore": True, "rescorer": "ngram"},
    {"accuracy": "best", "rescore": False},
    {"accuracy": "best", "ctc_rescore": False},
    {"ctc_rescore": True},
    {"decoder": "ctc", "attention_rescore": True},
    {"decoder": "wfst", "rescore": True, "attention_rescore": True},
)
COMPONENTS = components_for(RecognitionOptions())
LIVE_OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"vad": False},
    {"mode": "streaming"},
    {"mode": "two_pass"},
    {"endpointing": False},
    {"hotwords": "Conch"},
    {"hotwords": "Conch", "decoder": "attention"},
    {"lm_fusion": True},
    {"decoder": "ctc"},
    {"decoder": "wfst", "mode": "two_pass"},
    {"accuracy": "best"},
    {"accuracy": "best", "decoder": "wfst", "mode": "two_pass"},
    {"ctc_rescore": True},
    {"decoder": "ctc", "rescore": True},
    {"decoder": "ctc", "mode": "two_pass", "attention_rescore": True},
)


def components(url: str, **query: object) -> Answer:
    texts = {
        name: str(value).lower() if value in (True, False) else str(value)
        for name, value in query.items()
    }
    return asked("GET", f"{url}/v1/components", params=texts)


def needed(url: str, **query: object) -> dict[str, str]:
    found = components(url, **query).body["components"]
    assert [it["name"] for it in found[: len(COMPONENTS)]] == [it.name for it in COMPONENTS]
    return {item["name"]: item["needed"] for item in found if item["needed"]}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_recording_needs_what_the_server_needs(url: str, options: Mapping[str, Any]) -> None:
    assert needed(url, **options) == components_of(RecognitionOptions.parse(options))


@pytest.mark.parametrize("options", LIVE_OPTIONS, ids=str)
def test_live_audio_needs_what_the_server_needs(url: str, options: Mapping[str, Any]) -> None:
    parsed = RecognitionOptions.parse(options, live=True)
    assert needed(url, **options, live=True) == components_of(parsed)


def test_a_model_and_fields_of_openais_are_options_too(url: str) -> None:
    assert needed(url, model="conch-wfst").keys() == {"vad", "ctc_encoder", "ctc_decoder"}
    assert needed(url, stream="true", temperature="0") == needed(url)


def test_wrong_fields_are_the_error_of_the_request_itself(url: str) -> None:
    for query, param in (
        ({"nbest": 200}, "nbest"),
        ({"decoder": "ctc", "task": "translate"}, "task"),
        ({"live": "true", "mode": "offline"}, "mode"),
        ({"model": "other"}, "model"),
        ({"voice": "nobody"}, "voice"),
    ):
        answer = components(url, **query)
        assert answer.body["error"]["param"] == param
        assert answer.status == (404 if param == "model" else 400)


def test_every_component_is_there_and_some_option_needs_it() -> None:
    folders = {path.parent.name for path in (ROOT / "component_models").glob("*/config.pbtxt")}
    speaking = components_that_speak("hibari")
    assert {item.name for item in (*COMPONENTS, *speaking)} == folders
    assert all(needed_for(item.name) for item in (*COMPONENTS, *speaking))
    of_voice = [(item.step, item.needed) for item in speaking if item.needed]
    assert of_voice == [(step, "voice=hibari") for step in ("read", "voice", "sound")]
    assert [item.name for item in sorted(COMPONENTS, key=step_of)] == [i.name for i in COMPONENTS]


def test_a_voice_has_its_components(url: str) -> None:
    found = components(url, voice="hibari").body["components"]
    by_name = {item["name"]: item["needed"] for item in found if item["needed"]}
    assert by_name == dict.fromkeys(("text_frontend", "acoustic", "vocoder"), "voice=hibari")


def step_of(component: Any) -> int:
    return ["find speech", "encode", "decode", "rescore", "write", "label"].index(component.step)


async def test_a_server_has_its_components_and_what_a_request_needs(running: LoopGateway) -> None:
    asked: list[str] = []

    async def ready_models(models: Sequence[str]) -> set[str]:
        asked.extend(models)
        return {"vad", "ctc_encoder", "ctc_decoder"}

    running.servers.ready_models = ready_models  # type: ignore[method-assign]
    answer = await answer_to("GET", f"{running.url}/v1/components?decoder=moonshine")
    assert [(item["name"], item["needed"]) for item in answer.body["components"]] == [
        ("vad", "vad=true"),
        ("moonshine_encoder", "decoder=moonshine"),
        ("ctc_encoder", None),
        ("moonshine_decoder", "decoder=moonshine"),
        ("ctc_decoder", None),
    ]
    assert asked == [item.name for item in COMPONENTS]


def test_models_of_post_come_last() -> None:
    result = components_for(RecognitionOptions.parse({"post": "redact,shout"}))
    assert [(item.name, item.needed) for item in result[-2:]] == [
        ("redact", "post=redact"),
        ("shout", "post=shout"),
    ]
