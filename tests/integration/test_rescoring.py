"""Rescoring by the neural language model and the CTC model, on a real server."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from recordings import Recording, recordings_of

from conch.client import Client
from conch.scoring.error_rates import ENGLISH_WORDS
from conch.wire.options import RecognitionOptions

pytestmark = pytest.mark.server

DATA = Path(__file__).parents[1] / "data"
OPINIONS = ("neural_rescorer", "ctc_encoder", "ctc_decoder")


@pytest.fixture(scope="module")
def doubtful() -> list[Recording]:
    """Return utterances of which Whisper's best text is wrong, and another one right."""
    return recordings_of(DATA / "rescoring")


def test_the_order_changes_for_the_better(client: Client, doubtful: list[Recording]) -> None:
    for recording in doubtful:
        fast = client.transcribe(recording.path, decoder="attention").text
        best = client.transcribe(recording.path, decoder="attention", accuracy="best").text
        assert (
            ENGLISH_WORDS.normalized(fast)
            != ENGLISH_WORDS.normalized(recording.text)
            == ENGLISH_WORDS.normalized(best)
        )


def test_each_opinion_is_asked_only_by_requests_that_want_it(client, recordings, executions):
    path = recordings[0].path
    before = {model: executions(model)[0] for model in OPINIONS}
    client.transcribe(path, nbest=5, coverage=False)
    assert {model: executions(model)[0] for model in OPINIONS} == before
    scored = client.transcribe(path, accuracy="best", nbest=5)
    assert {*OPINIONS} <= {*scored.path}
    assert all(scored.stages[model].calls == 1 for model in OPINIONS)


def test_the_parts_make_the_score_and_the_order(
    client: Client, recordings: list[Recording]
) -> None:
    options: dict[str, Any] = {"accuracy": "best", "rescorer": "neural"}
    found = client.transcribe(recordings[2].path, nbest=5, **options).nbest
    weights = RecognitionOptions.parse(options).weights
    assert len(found) == 5
    for item in found:
        assert item.lm_score is not None and item.ctc_score is not None and item.num_words
        score = item.am_score + weights.lm * item.lm_score + weights.ctc * item.ctc_score
        assert item.score == pytest.approx(score + weights.word_bonus * item.num_words, abs=1e-3)
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)


def test_a_prompt_changes_what_the_language_model_says(client: Client, recordings) -> None:
    # After the graph: Whisper would read the prompt too, and find other texts.
    options: dict[str, Any] = {"decoder": "wfst", "accuracy": "best", "nbest": 3}
    options["rescorer"] = "neural"
    plain = client.transcribe(recordings[2].path, **options)
    prompted = client.transcribe(recordings[2].path, prompt=recordings[2].text, **options)
    before, after = (
        {item.text: item.lm_score or 0.0 for item in found.nbest} for found in (plain, prompted)
    )
    shared = before.keys() & after.keys()
    assert shared and all(after[text] > before[text] + 5 for text in shared)


def test_the_neural_rescorer_scores_texts_after_a_context(triton, caller) -> None:
    texts = ["And fail better.", "And fail butter."]
    context = "Try again. Fail again."

    def scored(**sent: list[str]) -> np.ndarray:
        rows = {name: np.array([values], np.object_) for name, values in sent.items()}
        inputs = inputs_of(http, **rows)
        found = triton.infer("neural_rescorer", inputs, parameters=caller)
        assert found.as_numpy("num_words").tolist() == [[3, 3]]
        return found.as_numpy("lm_scores")[0]

    better, butter = scored(hypotheses=texts)
    assert butter < better < 0
    assert (scored(hypotheses=texts, context=[context]) > [better, butter]).all()


def test_a_second_pass_is_rescored_by_what_the_first_one_heard(client, recordings):
    waveform = np.concatenate([recordings[2].waveform(), np.zeros(32_000, np.float32)])
    with client.live(mode="two_pass", accuracy="best", nbest=3) as stream:
        for start in range(0, len(waveform), 8_000):
            stream.send(waveform[start : start + 8_000])
        final = stream.finish()
    assert [segment.passes for segment in final.segments] == [2] * len(final.segments)
    assert all(item.ctc_score is not None for item in final.segments[0].nbest)
    assert "ctc_encoder" not in final.path
