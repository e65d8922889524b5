"""Rescoring on plain functions: what is called, with what, and which text wins."""

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognized, speech
from plain_streams import audio, streaming

from conch.wire.errors import ComponentError, MissingModelError

RESCORING = ("neural_rescorer", "rescorer", "ctc_encoder", "ctc_decoder")


class Listed(PlainComponents):
    """Its attention decoder finds these texts with these scores in every segment."""

    def __init__(self, **scores: float) -> None:
        super().__init__()
        self.scores = {text.replace("_", " "): score for text, score in scores.items()}

    def attention_decoder(self, inputs, parameters):
        if "text" in inputs or "texts" in inputs:
            return super().attention_decoder(inputs, parameters)
        found = super().attention_decoder(inputs, {**parameters, "nbest": 1})
        texts = [*self.scores][: parameters["nbest"]]
        columns = {
            "hypotheses": np.array([text.encode() for text in texts], object),
            "scores": np.array([self.scores[text] for text in texts], np.float32),
        }
        return {**found, **columns}

    def sent(self, model: str, name: str) -> list[list[str]]:
        """Return an input of each call of a model, as texts."""
        calls = zip(self.calls, self.inputs, strict=True)
        return [
            [text.decode() for text in inputs[name]]
            for called, inputs in calls
            if called == model and name in inputs
        ]


def recognize(components, utterances=1, **parameters):
    return recognized(components, speech(*[0.5] * utterances), **parameters)


def called(components) -> set[str]:
    return {*components.calls} & {*RESCORING}


@pytest.fixture
def components() -> Listed:
    return Listed(one=-1.0, two=-1.2)


@pytest.mark.parametrize(
    ("options", "models"),
    [
        ({}, set()),
        ({"accuracy": "fast", "nbest": 5}, set()),
        ({"rescore": True}, {"neural_rescorer"}),
        ({"rescore": True, "rescorer": "ngram"}, {"rescorer"}),
        ({"ctc_rescore": True}, {"ctc_encoder", "ctc_decoder"}),
        ({"accuracy": "balanced"}, {"neural_rescorer"}),
        ({"accuracy": "best"}, {"neural_rescorer", "ctc_encoder", "ctc_decoder"}),
        ({"accuracy": "best", "rescore": False}, {"ctc_encoder", "ctc_decoder"}),
    ],
)
def test_each_opinion_is_one_call_and_what_is_off_is_none(components, options, models):
    recognize(components, coverage=False, **options)
    assert called(components) == models
    assert {components.calls.count(model) for model in models} <= {1}


def test_only_hypotheses_that_may_win_are_scored():
    components = Listed(one=-1.0, two=-1.9, three=-2.1)
    transcript = recognize(components, rescore=True, rescore_margin=1.0, lm_weight=1.0)
    assert components.sent("neural_rescorer", "hypotheses") == [["one", "two"]]
    assert transcript.text == "two"


def test_hypotheses_that_are_returned_are_scored_too():
    components = Listed(one=-1.0, two=-1.9, three=-2.1, four=-9.0, five=-9.5)
    transcript = recognize(components, rescore=True, rescore_margin=1.0, nbest=4)
    assert components.sent("neural_rescorer", "hypotheses") == [["one", "two", "three", "four"]]
    assert len(transcript.nbest) == 4
    assert all(item.lm_score is not None for item in transcript.nbest)
    scores = [item.score for item in transcript.nbest]
    assert scores == sorted(scores, reverse=True)


def test_a_text_that_leads_by_more_than_the_margin_costs_no_call():
    components = Listed(one=-1.0, two=-4.1)
    transcript = recognize(components, accuracy="best")
    assert called(components) == set()
    assert transcript.nbest[0].score == -1.0


def test_texts_that_sound_the_same_are_scored_once():
    components = Listed(**{"Two!": -1.0, "two": -1.5, "too": -1.6})
    transcript = recognize(components, rescore=True, nbest=3, lm_weight=1.0, word_bonus=0.0)
    assert components.sent("neural_rescorer", "hypotheses") == [["Two!", "too"]]
    parts = {item.text: item.lm_score for item in transcript.nbest}
    assert parts["Two!"] == parts["two"] != parts["too"]
    only = Listed(**{"Two!": -1.0, "two": -1.5})
    recognize(only, accuracy="best", nbest=2)
    assert called(only) == set()


def test_without_a_neural_rescorer_the_n_grams_score(components):
    components.missing = {"neural_rescorer"}
    transcript = recognize(components, rescore=True)
    assert called(components) == {"rescorer"}
    assert "rescorer" in transcript.path
    assert "rescorer" in recognize(components, rescore=True, prompt="Numbers.").path


def test_a_missing_model_fails_the_request_whether_or_not_a_list_needs_it():
    neural, both, ctc = {"neural_rescorer"}, {"neural_rescorer", "rescorer"}, {"ctc_encoder"}
    for scores in ({"one": -1.0}, {"one": -1.0, "two": -1.2}):
        components = Listed(**scores)
        for missing, options, message in (
            (both, {"rescore": True}, "model rescorer is not loaded"),
            (neural, {"rescore": True, "lm_context": True}, "model neural_rescorer is not loaded"),
            (ctc, {"accuracy": "best"}, "model ctc_encoder is not loaded"),
            (both | ctc, {"accuracy": "best"}, r"^models rescorer, ctc_encoder .*best: name"),
        ):
            components.missing = missing
            with pytest.raises(MissingModelError, match=message):
                recognize(components, **options)


def test_an_impossible_text_never_wins_and_keeps_the_scores_finite():
    class Impossible(Listed):
        def ctc_decoder(self, inputs, parameters):
            found = super().ctc_decoder(inputs, parameters)
            return {**found, "text_scores": np.array([-np.inf, -1.0], np.float32)}

    transcript = recognize(Impossible(one=-1.0, two=-1.2), ctc_rescore=True, nbest=2)
    assert [item.text for item in transcript.nbest] == ["two", "one"]
    assert all(np.isfinite(item.score) for item in transcript.nbest)


def test_a_failing_rescorer_fails_the_request_that_asks_for_it_alone(components):
    components.failing = "neural_rescorer"
    with pytest.raises(ComponentError, match="neural_rescorer: out of order"):
        recognize(components, accuracy="best")
    assert recognize(components).text == "one"
    assert recognize(components, ctc_rescore=True).text == "one"


def test_the_context_is_the_prompt_and_the_text_before(components):
    options = {"rescore": True, "lm_weight": 1.0}
    recognize(components, 3, prompt="Numbers.", **options)
    assert components.sent("neural_rescorer", "context") == [["Numbers.\n\n"]] * 3
    components = Listed(one=-1.0, two=-1.2)
    recognize(components, 3, prompt="Numbers.", lm_context=True, **options)
    said = [["Numbers.\n\n"], ["Numbers.\n\ntwo"], ["Numbers.\n\ntwo"]]
    assert components.sent("neural_rescorer", "context") == said


async def test_a_second_pass_scores_by_what_the_first_one_heard(components):
    async def heard(components):
        options = {"ctc_rescore": True, "coverage": False}
        async with streaming(components, mode="two_pass", **options) as (client, _):
            return await client.send(audio(".12..34"), ends=True)

    answer = await heard(components)
    assert [segment.passes for segment in answer.segments] == [2, 2]
    assert "ctc_encoder" not in components.calls
    frames = [
        [round(level, 1) for level in inputs["log_probs"].ravel().tolist() if level]
        for model, inputs in zip(components.calls, components.inputs, strict=True)
        if model == "ctc_decoder"
    ]
    assert frames == [[0.1, 0.2], [0.3, 0.4]]

    class Longer(Listed):
        """Its live frames reach beyond the audio, as those of silence behind an end."""

        def ctc_streaming_encoder(self, inputs, parameters, kept):
            found = super().ctc_streaming_encoder(inputs, parameters, kept)
            log_probs = np.repeat(found["log_probs"], 3, axis=0)
            lens = np.array([len(log_probs)], np.int32)
            return {**found, "log_probs": log_probs, "log_probs_lens": lens}

    behind = Listed(one=-1.0, two=-1.2)
    behind.behind_samples = 3_200
    for components in (behind, Longer(one=-1.0, two=-1.2)):
        await heard(components)
        assert components.calls.count("ctc_encoder") == 2, "the frames are not those of the audio"


async def test_a_second_pass_has_the_utterance_before_as_its_context(components):
    options = {"mode": "two_pass", "rescore": True, "lm_context": True}
    async with streaming(components, **options) as (client, _):
        await client.send(audio("1..2"), ends=True)
    assert components.sent("neural_rescorer", "context") == [["two"]]
