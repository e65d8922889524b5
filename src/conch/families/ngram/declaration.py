"""What the n-gram language model declares: the component `rescorer`."""

from conch.families.family import Component, Family, FamilyHooks, Need, Tensor

RESCORER = Component(
    name="rescorer",
    role="texts to language-model scores",
    title="N-gram",
    step="rescore",
    inputs=(Tensor("hypotheses", "BYTES", (-1,), "texts to score"),),
    outputs=(
        Tensor(
            "lm_scores",
            "FP32",
            (-1,),
            "log probability of each text's words, with the end of the sentence",
        ),
        Tensor("num_words", "INT32", (-1,), "words as the language model counts them"),
    ),
)

FAMILY = Family(
    name="ngram",
    title="N-grams",
    components=(RESCORER,),
    rescorers={"ngram": "rescorer"},
    needs=(
        Need(
            components=("rescorer",),
            when={"rescore": True, "rescorer": "ngram"},
            reason="rescore=true",
            purpose="rescoring",
        ),
    ),
    warm_ups=({"rescore": True, "rescorer": "ngram"},),
    hooks=FamilyHooks(text_scorers=("conch.families.ngram.scorer:NGRAM",)),
)
