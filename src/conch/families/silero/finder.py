"""Find speech by the component `vad`."""

from conch.bls.call import TensorHandle
from conch.bls.calls import Calls
from conch.component import Array


async def find_speech(
    calls: Calls, waveform: Array, state: Array | TensorHandle | None
) -> tuple[Array, TensorHandle]:
    inputs: dict[str, Array | TensorHandle] = {"waveform": waveform}
    if state is not None:
        inputs["state"] = state
    outputs = await calls("vad", inputs, ("speech_probs", "state"))
    return outputs["speech_probs"].numpy(), outputs["state"]
