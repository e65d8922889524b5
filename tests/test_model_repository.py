"""Every config.pbtxt, held against Triton's own schema and against the code that it feeds."""

import asyncio
import importlib
import json
import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from contracts import PARAMETERS, configured, documented, parsed, tensors
from plain_components import PlainComponents
from plain_recognizer import recognizer_on
from tritonclient.grpc import model_config_pb2

from conch.component.parameters import read_parameters
from conch.families import FAMILIES, decoders, traits
from conch.families.family import TO_TEXT
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions

ROOT = Path(__file__).parents[1]
BLS = sorted((ROOT / "bls_models").glob("*/config.pbtxt"))
SPEECH = ROOT / "bls_models" / "speech" / "config.pbtxt"
CONTRACTS = ROOT / "component_models" / "README.md"
COMPONENTS = sorted((ROOT / "component_models").glob("*/config.pbtxt"))
BENCHMARKS = sorted((ROOT / "lab" / "repositories").glob("*/*/config.pbtxt"))
OVERLAYS = sorted(ROOT.glob("*_models/*/configs/*.pbtxt"))
FOR_COMPONENTS = [path for path in OVERLAYS if path.parts[-4] == "component_models"]


def by_name(path: Path) -> str:
    return path.parent.name


@pytest.mark.parametrize("path", BLS + COMPONENTS, ids=by_name)
def test_config_parses_and_names_its_backend(path):
    config = parsed(path)
    assert config.backend == "python"
    assert not config.name, "the folder names the model"
    assert (path.parent / "1" / "model.py").is_file()


@pytest.mark.parametrize("path", COMPONENTS, ids=by_name)
def test_a_component_has_the_tensors_of_its_table_and_keeps_streams_as_declared(path):
    config, name = parsed(path), path.parent.name
    assert configured(config) == documented(CONTRACTS.read_text())[name]
    assert config.HasField("sequence_batching") == traits()[name].is_stream


def test_a_table_of_tensors_is_read_as_it_stands():
    table = (
        "<!-- tensors of one, other -->\n| tensor | type, dims | meaning |\n| --- | --- | --- |\n"
        "| in `word` | BYTES [1], optional | the word; absent for any |\n"
        "| out `starts`, `ends` | INT32 [-1, 4] | seconds |\n<!-- /tensors -->"
    )
    tensors = [("in", "word", "BYTES", [1], True)]
    tensors += [("out", name, "INT32", [-1, 4], False) for name in ("starts", "ends")]
    assert documented(table) == {"one": tensors, "other": tensors}
    with pytest.raises(AssertionError, match=r"no row of a table"):
        documented(table.replace("INT32 [-1, 4]", "INT32"))


def test_every_component_that_ships_is_declared_and_documented():
    assert {path.parent.name for path in COMPONENTS} == set(traits())
    contracts = CONTRACTS.read_text()
    assert documented(contracts).keys() == traits().keys()
    assert PARAMETERS.keys() <= traits().keys()
    for name in traits():
        assert f"`{name}`" in contracts or f"## {name}: " in contracts
        assert all(f"`{parameter}`" in contracts for parameter in PARAMETERS.get(name, ()))


def overlay_name(path: Path) -> str:
    return f"{path.parents[1].name}-{path.stem}"


def test_there_are_overlays_for_the_gpu():
    assert {path.parents[1].name for path in OVERLAYS if path.stem == "gpu"} == {
        "attention_decoder",
        "attention_encoder",
        "ctc_decoder",
        "ctc_encoder",
        "ctc_streaming_encoder",
        "neural_rescorer",
        "speech",
        "vad",
    }


def test_on_a_gpu_speech_has_more_calls_in_flight_and_is_else_the_same():
    config, overlay = parsed(SPEECH), parsed(SPEECH.parent / "configs" / "gpu.pbtxt")
    for name in ("max_encoder_calls", "max_decoder_calls"):
        more, fewer = overlay.parameters[name], config.parameters[name]
        assert int(more.string_value) > int(fewer.string_value)
        more.string_value = fewer.string_value
    assert overlay == config


@pytest.mark.parametrize("path", OVERLAYS, ids=overlay_name)
def test_an_overlay_has_the_tensors_of_the_config_that_it_replaces(path):
    overlay, config = parsed(path), parsed(path.parents[1] / "config.pbtxt")
    assert not overlay.name, "the folder names the model"
    assert list(overlay.input) == list(config.input)
    assert tensors(overlay.output) == tensors(config.output)
    for output, wanted in zip(overlay.output, config.output, strict=True):
        # What is open in the contract may be a model's own number.
        pairs = zip(output.dims, wanted.dims, strict=True)
        assert all(theirs in (-1, ours) for ours, theirs in pairs)
    assert overlay.WhichOneof("scheduling_choice") == config.WhichOneof("scheduling_choice")
    assert overlay.max_batch_size >= config.max_batch_size


@pytest.mark.parametrize("path", OVERLAYS, ids=overlay_name)
def test_an_overlays_parameters_are_those_of_the_code(path):
    """All of them, as in config.pbtxt; an overlay for another backend has none of the code's."""
    overlay, config = parsed(path), parsed(path.parents[1] / "config.pbtxt")
    if overlay.backend != "python":
        assert not overlay.parameters
        return
    sent = {key: {"string_value": item.string_value} for key, item in overlay.parameters.items()}
    assert set(sent) == set(config.parameters)
    (group,) = overlay.instance_group
    args = {
        "model_config": json.dumps({"parameters": sent}),
        "model_instance_kind": model_config_pb2.ModelInstanceGroup.Kind.Name(group.kind),
        "model_instance_device_id": "3",
    }
    kind = config_class(path.parents[1] / "config.pbtxt")
    found = read_parameters(kind, args)
    if group.kind == model_config_pb2.ModelInstanceGroup.KIND_GPU:
        assert (found.device, found.device_index) == ("cuda", 3)
    # Weights, languages and limits of streams are no matter of where a model runs.
    same = {
        *("model", "language", "language_model", "graph", "chunk_ms", "left_ms", "stream_ttl_s"),
        *("start_token", "max_context_tokens"),
    }
    for name in same & set(sent):
        assert getattr(found, name) == getattr(kind(), name)


@pytest.mark.parametrize(
    "path", COMPONENTS + FOR_COMPONENTS, ids=lambda path: "-".join(path.parts[-3:])
)
def test_a_component_batches_and_lets_a_deadline_drop_what_waits(path):
    config = parsed(path)
    component = traits().get(path.parent.name)
    assert config.max_batch_size > 1 or (component and component.is_one_by_one)
    if config.HasField("sequence_batching"):
        assert config.sequence_batching.HasField("oldest"), "streams share executions"
        return
    policy = config.dynamic_batching.default_queue_policy
    assert policy.allow_timeout_override
    # Triton honours a request's own queue time only where it is below a default.
    assert policy.default_timeout_microseconds >= 600_000_000


@pytest.mark.parametrize("path", BLS + COMPONENTS, ids=by_name)
def test_a_model_is_an_adapter(path):
    lines = (path.parent / "1" / "model.py").read_text().splitlines()
    assert len(lines) <= 40


@pytest.mark.parametrize("path", BENCHMARKS, ids=by_name)
def test_what_is_measured_against_parses_and_can_be_served(path):
    config = parsed(path)
    assert not config.name, "the folder names the model"
    assert config.backend == "python" or config.platform == "ensemble"
    assert (path.parent / "1").is_dir()
    assert (path.parent / "1" / "model.py").is_file() == (config.backend == "python")


@pytest.mark.parametrize("path", BENCHMARKS, ids=by_name)
def test_an_ensemble_joins_its_components_by_their_contracts(path):
    ensemble = parsed(path)
    known = tensors(ensemble.input)
    for step in ensemble.ensemble_scheduling.step:
        component = parsed(ROOT / "component_models" / step.model_name / "config.pbtxt")
        assert ensemble.max_batch_size <= component.max_batch_size
        for name, source in step.input_map.items():
            assert tensors(component.input)[name] == known[source]
        known |= {to: tensors(component.output)[name] for name, to in step.output_map.items()}
    if ensemble.platform == "ensemble":
        assert tensors(ensemble.output).items() <= known.items()
        assert len(ensemble.ensemble_scheduling.step) == 2


FOLDERS = ["bls_models", "component_models", *sorted({str(p.parents[1]) for p in BENCHMARKS})]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: Path(folder).name)
def test_a_repository_holds_models_alone(folder):
    """Triton treats every folder of a repository as a model."""
    folders = [path for path in (ROOT / folder).iterdir() if path.is_dir()]
    assert [path.name for path in folders if not (path / "config.pbtxt").is_file()] == []


def config_class(path: Path) -> type:
    """The dataclass that a model.py reads its parameters into."""
    source = (path.parent / "1" / "model.py").read_text()
    (name,) = {*re.findall(r"\b\w+Config\b", source)}
    names = rf"(?:\([^)]*|[^\n]*)\b{name}\b"
    (module,) = re.findall(rf"^from (\S+) import {names}", source, flags=re.M)
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", BLS + COMPONENTS, ids=by_name)
def test_parameters_are_those_of_the_code_at_their_defaults(path):
    sent = {
        key: {"string_value": value.string_value} for key, value in parsed(path).parameters.items()
    }
    kind = config_class(path)
    expected = kind()
    if path.parent.name == "synthesis_stream":
        expected = replace(expected, host="synthesis")
    assert read_parameters(kind, {"model_config": json.dumps({"parameters": sent})}) == expected
    shown = {item.name for item in fields(kind)} - {"device", "device_index", "instances"}
    assert shown <= set(sent), "an operator finds every parameter in the file"


def most_texts(decoder: str) -> int:
    """Return 3, or 1 for a decoder that finds one text."""
    with suppress(OptionError):
        return RecognitionOptions.parse({"decoder": decoder, "nbest": 3}).nbest
    return 1


def test_what_the_paths_send_and_ask_for_is_in_the_contracts():
    """A path with everything turned on, held against the components' configs."""
    configs = {path.parent.name: parsed(path) for path in COMPONENTS}
    kinds = {np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32", np.dtype(object): "BYTES"}
    seen = set()

    class Watched(PlainComponents):
        async def call(self, call):
            model = call.model
            declared = tensors(configs[model].input)
            for name, value in call.inputs.items():
                array = value.numpy() if hasattr(value, "numpy") else value
                assert declared[name] == kinds[array.dtype], f"{model}: {name}"
            assert set(call.outputs) <= set(tensors(configs[model].output))
            for name, value in call.parameters.items():
                assert type(value) is PARAMETERS[model][name], f"{model}: {name}"
            seen.add(model)
            return await super().call(call)

    tone = np.full((1, 40 * 16_000), 0.5, np.float32)
    rewriting = {item.option: True for family in FAMILIES for item in family.rewriters}
    writing = [name for name, item in decoders().items() if item.components]
    for options in (
        {"accuracy": "best", "prompt": "A tone.", "word_timestamps": True},
        {"rescore": True, "rescorer": "ngram"},
        {"decoder": "ctc", "speakers": "auto"},
        {"decoder": "wfst", **rewriting},
        *({"decoder": name, "nbest": most_texts(name)} for name in writing),
        {"decoder": "sensevoice", "itn": True},
    ):
        parameters = {"nbest": 3, **options}
        request = RecognitionRequest(wav=tone, parameters=parameters)
        asyncio.run(recognizer_on(PlainComponents()).recognize(request, Watched()))
    chunk = RecognitionRequest(
        wav=tone,
        parameters={"mode": "two_pass", "decoder": "ctc", "attention_rescore": True},
        stream_id=1,
        starts=True,
        ends=True,
    )
    without_vad = replace(chunk, parameters={"vad": False})
    # Waits for the answers that a pause asks for.
    asked = {"semantic_endpointing": True, "adaptive": False}
    paused = replace(chunk, wav=np.pad(tone[:, :20_480], ((0, 0), (0, 20_480))), parameters=asked)
    hearing = [name for name, item in decoders().items() if item.live]
    live = [replace(chunk, parameters={"decoder": name}) for name in hearing]
    for request in (chunk, without_vad, paused, *live):
        asyncio.run(recognizer_on(Watched()).recognize(request, Watched()))
    recognising = {name for name, item in traits().items() if item.step in TO_TEXT}
    assert seen == recognising, "a component that no request above calls"


@pytest.mark.parametrize(
    "path",
    [path for path in COMPONENTS + OVERLAYS if parsed(path).HasField("sequence_batching")],
    ids=lambda path: "-".join(path.parts[-3:]),
)
def test_an_instance_has_a_place_for_every_stream_that_may_be_open(path):
    """Or a START would wait for the end of another stream."""
    most = int(parsed(SPEECH).parameters["max_streams"].string_value)
    assert parsed(path).sequence_batching.oldest.max_candidate_sequences >= most


def test_a_stream_is_heard_in_the_encoders_own_chunks_and_expires_before_its_children():
    config = {path.parent.name: parsed(path).parameters for path in BLS + COMPONENTS}
    children = [config["ctc_streaming_encoder"], config["ctc_streaming_decoder"]]
    step_ms = config["speech"]["stream_step_ms"].string_value
    assert step_ms == children[0]["chunk_ms"].string_value
    assert int(step_ms) % 32 == 0, "whole frames of the VAD"
    for child in children:
        ttl_s = float(child["stream_ttl_s"].string_value)
        assert ttl_s > float(config["speech"]["stream_ttl_s"].string_value)
    for path in COMPONENTS:
        if parsed(path).HasField("sequence_batching"):
            idle = parsed(path).sequence_batching.max_sequence_idle_microseconds
            assert idle >= 1e6 * ttl_s
