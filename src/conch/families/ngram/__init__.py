"""N-gram language models: the probability of a text by its words."""

from conch.families.family import ComponentInfo, Family, FamilyHooks, Need, ScorerHook

RESCORER = ComponentInfo(name="rescorer", title="N-gram", step="rescore")
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
