"""The rescorer as a component."""

import numpy as np
import pytest

from conch.component import Row, bytes_array
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.families.ngram.rescorer import Rescorer
from conch.wire.errors import ConfigError, InvalidRequestError


@pytest.fixture(scope="module")
def rescorer() -> Rescorer:
    return Rescorer(LanguageModelConfig())


def test_scores_each_text_of_each_row(rescorer):
    texts = ["Why did we lose the battle?", "Why did we lose the battery?", ""]
    first, second = rescorer(
        [Row({"hypotheses": bytes_array(texts)}), Row({"hypotheses": bytes_array(["In 1912."])})]
    )
    assert first["num_words"].tolist() == [6, 6, 0] and second["num_words"].tolist() == [3]
    assert first["num_words"].dtype == np.int32 and first["lm_scores"].dtype == np.float32
    battle, battery, nothing = first["lm_scores"]
    assert battery < battle < nothing < 0
    model = load_language_model(LanguageModelConfig())
    assert battle == pytest.approx(
        model.score(["why", "did", "we", "lose", "the", "battle"]), rel=1e-5
    )
    assert second["lm_scores"][0] == pytest.approx(model.score(["in", "nineteen", "twelve"]))


def test_punctuation_and_case_do_not_count(rescorer):
    texts = ["Fail again, fail better", "fail AGAIN; fail better."]
    (answer,) = rescorer([Row({"hypotheses": bytes_array(texts)})])
    assert answer["lm_scores"][0] == answer["lm_scores"][1]


def test_no_texts(rescorer):
    (answer,) = rescorer([Row({"hypotheses": bytes_array([])})])
    assert answer["lm_scores"].shape == answer["num_words"].shape == (0,)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["a"] * 128, ""),
        (["a"] * 129, "input 'hypotheses' takes at most 128 texts; sent: 129"),
        (["a" * 10_000], ""),
        (["a" * 10_001], "input 'hypotheses' takes texts of at most 10000 bytes; sent: 10001"),
    ],
)
def test_texts_are_limited(rescorer, texts, problem):
    if not problem:
        (answer,) = rescorer([Row({"hypotheses": bytes_array(texts)})])
        assert len(answer["lm_scores"]) == len(texts)
        return
    with pytest.raises(InvalidRequestError) as refused:
        rescorer([Row({"hypotheses": bytes_array(texts)})])
    assert str(refused.value) == problem


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.lm\.bin does not exist"):
        Rescorer(LanguageModelConfig(model=str(tmp_path / "no.lm.bin")))
