"""Ask in a pause whether the speaker has finished."""

import logging
from functools import cache

from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, Array
from conch.families.turns import END_OF_TURN, PACKAGE, WINDOW_S

logger = logging.getLogger(__name__)


async def end_of_turn(calls: Calls, waveform: Array) -> float:
    """Return the probability that an utterance, FP32 [samples], has ended; 0 without the model."""
    if not await calls.is_loaded(END_OF_TURN.name):
        _warn()
        return 0.0
    inputs = {"waveform": waveform[-round(WINDOW_S * SAMPLE_RATE) :]}
    outputs = await calls(END_OF_TURN.name, inputs, ("probability",))
    return float(outputs["probability"].numpy()[0])


@cache
def _warn() -> None:
    logger.warning(
        "ends of turns: this server lacks %s, so endpoint_silence_ms alone ends utterances; "
        f"{PACKAGE.command} and a restart bring it",
        END_OF_TURN.name,
    )
