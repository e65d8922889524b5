"""Find speech by the component `vad`."""

from conch.bls.call import Tensor
from conch.bls.calls import Calls
from conch.component import Array


async def find_speech(
    calls: Calls, waveform: Array, state: Array | Tensor | None
) -> tuple[Array, Tensor]:
    inputs: dict[str, Array | Tensor] = {"waveform": waveform}
    if state is not None:
        inputs["state"] = state
    outputs = await calls("vad", inputs, ("speech_probs", "state"))
    return outputs["speech_probs"].numpy(), outputs["state"]
