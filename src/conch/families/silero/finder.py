"""Finds speech by the component `vad`."""

from conch.bls.call import Tensor
from conch.bls.calls import Calls
from conch.component import Array
from conch.recognition.hooks import SpeechFinder


class Silero(SpeechFinder):
    """Calls the VAD."""

    async def find(
        self, calls: Calls, waveform: Array, state: Array | Tensor | None
    ) -> tuple[Array, Tensor]:
        """See `SpeechFinder.find`."""
        inputs: dict[str, Array | Tensor] = {"waveform": waveform}
        if state is not None:
            inputs["state"] = state
        outputs = await calls("vad", inputs, ("speech_probs", "state"))
        return outputs["speech_probs"].numpy(), outputs["state"]


SILERO = Silero()
