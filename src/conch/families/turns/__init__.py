"""The end of a turn: whether a speaker has finished, by smart-turn."""

from dataclasses import dataclass

from conch.families.family import (
    ComponentInfo,
    Family,
    FamilyHooks,
    Hook,
    KnownFile,
    KnownModel,
    Need,
    WeightsPackage,
)
from conch.families.options import Other, Rule, option

PACKAGE = WeightsPackage(
    what="model of ends of turns",
    module="pipecat",
    distribution="pipecat-ai",
    command="conch models get end-of-turn",
    fetched="end-of-turn",
)
WINDOW_S = 8.0
"""Audio that the model hears."""

END_OF_TURN = ComponentInfo(
    name="end_of_turn",
    title="End of turn",
    step="find speech",
    is_one_by_one=True,
    package=PACKAGE,
)


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    semantic_endpointing: bool = option(
        False,
        "live: end an utterance before endpoint_silence_ms if a model predicts that the speaker "
        "has finished",
    )
    end_threshold: float = option(
        0.95,
        "live: probability of the end at which semantic_endpointing ends an utterance",
        low=0.05,
        high=1,
    )
    turn_events: bool = option(
        False,
        "live: send events when speech begins, when its end is probable and when it goes on",
    )
    eager_end_threshold: float = option(
        0.5,
        "live, turn_events: probability of the end at which eager_end is sent; 1 is never",
        low=0.05,
        high=1,
    )

    @property
    def asks_for_ends(self) -> bool:
        """Whether the model is asked in pauses."""
        is_eager = self.turn_events and self.eager_end_threshold < 1
        return self.semantic_endpointing or is_eager


MODEL = KnownModel(
    name="end-of-turn",
    kind="",
    title="Whether the speaker has finished: smart-turn 3.2, of the option semantic_endpointing",
    languages=0,
    licence="BSD 2-Clause",
    requirements=("pipecat-ai==1.14.0",),
    files={
        "smart-turn-v3.2-cpu.onnx": KnownFile(
            8_679_182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
            ("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",),
        ),
    },
)

FAMILY = Family(
    name="turns",
    title="Turns",
    known_models=(MODEL,),
    components=(END_OF_TURN,),
    options=TurnOptions,
    rules=(
        Rule(
            {"semantic_endpointing": True, "endpointing": False},
            "option 'semantic_endpointing' cannot be true with endpointing false",
        ),
    ),
    needs=(
        Need(components=(END_OF_TURN.name,), when={"semantic_endpointing": True}),
        Need(
            components=(END_OF_TURN.name,),
            when={"turn_events": True, "eager_end_threshold": Other(1.0)},
        ),
    ),
    hooks=FamilyHooks(
        end_of_turn=Hook(
            function="conch.families.turns.end_of_turn:end_of_turn", when={"asks_for_ends": True}
        )
    ),
)
