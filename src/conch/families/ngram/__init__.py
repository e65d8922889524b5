"""N-gram language models: the probability of a text by its words."""

from conch.families.family import (
    ComponentInfo,
    Family,
    FamilyHooks,
    Need,
    ScorerHook,
    TensorInfo,
)

RESCORER = ComponentInfo(
    name="rescorer",
    role="texts to language-model scores",
    title="N-gram",
    step="rescore",
    inputs=(TensorInfo("hypotheses", "BYTES", (-1,), "texts to score"),),
    outputs=(
        TensorInfo(
            "lm_scores",
            "FP32",
            (-1,),
            "log probability of each text's words, with the end of the sentence",
        ),
        TensorInfo("num_words", "INT32", (-1,), "words as the language model counts them"),
    ),
)

_WHEN = {"rescore": True, "rescorer": "ngram"}

FAMILY = Family(
    name="ngram",
    title="N-grams",
    components=(RESCORER,),
    rescorers={"ngram": "rescorer"},
    needs=(Need(components=("rescorer",), when=_WHEN, purpose="rescoring"),),
    warm_ups=(_WHEN,),
    hooks=FamilyHooks(
        score_texts=(
            ScorerHook(
                function="conch.families.ngram.rescorer:scores", when=_WHEN, score="lm_score"
            ),
        )
    ),
)
