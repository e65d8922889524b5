"""The components that a request needs are those that its path calls."""

from itertools import product

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognized
from plain_streams import audio, streaming

from conch.component import bytes_array
from conch.families import decoders, synthesizers
from conch.launcher.repositories import model_names, shipped_repositories
from conch.wire.errors import OptionError
from conch.wire.needs import (
    PATHS,
    components_of,
    components_of_path,
    components_to_serve,
    needed_for,
)
from conch.wire.options import RecognitionOptions


class Doubtful(PlainComponents):
    """Plain components whose CTC decoders always have a second hypothesis."""

    def ctc_decoder(self, inputs, parameters):
        result = super().ctc_decoder(inputs, parameters)
        return result if "texts" in inputs else doubled(result)

    def ctc_streaming_decoder(self, inputs, parameters, kept):
        return doubled(super().ctc_streaming_decoder(inputs, parameters, kept))


def doubled(outputs):
    text = outputs["hypotheses"][0].decode()
    columns = ("scores", "am_scores", "lm_scores", "num_words", "words")
    columns += ("word_starts", "word_ends", "word_confidences")
    twice = {name: np.concatenate([outputs[name], outputs[name]]) for name in columns}
    texts = bytes_array([text, f"{text}, again?"])
    return {**outputs, **twice, "hypotheses": texts}


def allowed(*, live: bool) -> list[dict[str, object]]:
    """Every combination of the options that choose components, without those that are refused."""
    sets = []
    modes = ("streaming", "two_pass") if live else ("offline",)
    flags = product((False, True), repeat=4)
    rescorers = (None, "ngram", "neural")
    for mode, decoder, rescorer, (vad, ctc_rescore, attention_rescore, words) in product(
        modes, ("attention", "ctc", "wfst"), rescorers, list(flags)
    ):
        sent = {
            "mode": mode,
            "decoder": decoder,
            "vad": vad,
            "rescore": rescorer is not None,
            "rescorer": rescorer or "auto",
            "ctc_rescore": ctc_rescore,
            "attention_rescore": attention_rescore,
            "word_timestamps": words,
        }
        try:
            RecognitionOptions.parse(sent, live=live)
        except OptionError:
            continue
        sets.append(sent)
    return sets


def needed(sent, *, live):
    return set(components_of(RecognitionOptions.parse(sent, live=live)))


def test_a_recording_calls_what_it_is_said_to_need():
    sets = allowed(live=False)
    assert len(sets) == 72
    for sent in sets:
        components = Doubtful()
        recognized(components, np.full(16_000, 0.5, np.float32), **sent)
        assert set(components.calls) == needed(sent, live=False), sent


async def test_a_stream_calls_what_it_is_said_to_need():
    sets = allowed(live=True)
    assert {sent["mode"] for sent in sets} == {"streaming", "two_pass"}
    for sent in sets:
        async with streaming(Doubtful(), **sent) as (client, components):
            final = await client.send(audio("11"), ends=True)
        assert [segment.error for segment in final.segments] == [""]
        assert set(components.calls) == needed(sent, live=True), sent


def test_the_default_needs_three_components():
    default = components_of(RecognitionOptions.parse({}))
    assert tuple(default) == ("vad", "moonshine_encoder", "moonshine_decoder")
    assert components_of_path("moonshine") == tuple(default)
    assert set(components_of_path("two_pass")) == {*default, *components_of_path("streaming")}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("vad", ("vad=true",)),
        ("attention_encoder", ("decoder=attention", "attention_rescore=true")),
        ("ctc_encoder", ("decoder=ctc", "decoder=wfst", "ctc_rescore=true")),
        ("neural_rescorer", ("rescore=true",)),
        ("ctc_streaming_decoder", ("mode=streaming", "mode=two_pass")),
        ("rescorer", ("rescore=true",)),
        ("speech", ()),
    ],
)
def test_what_a_component_is_needed_for(model, options):
    assert set(needed_for(model)) == set(options)


def test_every_component_that_ships_is_needed_for_something():
    components = model_names(shipped_repositories()[1:])
    assert len(components) == 40
    assert all(needed_for(model) for model in components)
    assert {model for name in PATHS for model in components_of_path(name)} == {*components} - {
        *("inverse_normalizer", "neural_rescorer", "punctuator", "rescorer"),
        *("speaker_embedding", "speaker_segmentation", "end_of_turn", "voice_style"),
        "kokoro_gradient",
        *(name for item in synthesizers().values() for name in item.components),
        *decoders()["transducer"].live,
        *decoders()["kaldi"].live,
        *decoders()["wenet"].live,
        *decoders()["paraformer_online"].live,
    }


def test_a_server_gets_the_decoder_of_which_it_has_the_weights():
    pairs = {name: set(components_of_path(name)) for name in ("moonshine", "attention")}
    assert set(components_to_serve({})) == pairs["moonshine"]
    assert set(components_to_serve({}, lacking={"moonshine_encoder"})) == pairs["attention"]
    assert set(components_to_serve({}, chosen=pairs["attention"])) == pairs["attention"]
    both = pairs["attention"] | pairs["moonshine"]
    assert set(components_to_serve({}, chosen=both)) == pairs["moonshine"]
    transducer = set(components_of_path("transducer"))
    assert set(components_to_serve({}, lacking=both)) == transducer
    own = ("paraformer", "paraformer_online", "sensevoice", "kaldi", "wenet")
    users = transducer.union(*map(components_of_path, own))
    assert set(components_to_serve({}, lacking=both | users)) == pairs["moonshine"]
    live = set(components_to_serve({}, live=True, chosen=pairs["attention"]))
    assert live == pairs["attention"] | set(components_of_path("streaming"))
    streaming = components_of_path("streaming")
    assert components_of_path("streaming", pairs["attention"]) == streaming
    assert {*components_of_path("two_pass", pairs["attention"])} == live
    with pytest.raises(OptionError, match="the chosen model is of decoder=attention: option 'dec"):
        components_to_serve({"mode": "streaming"}, live=True, chosen=pairs["attention"])
    # Not Moonshine's text in place of an error.
    with pytest.raises(OptionError, match="'rescore' with decoder transducer takes lm_weight"):
        components_to_serve({"rescore": True}, chosen=transducer)
    foreign = components_to_serve({"language": "de"}, chosen=pairs["moonshine"])
    assert set(foreign) == pairs["attention"]
