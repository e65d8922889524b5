"""In place of a first pass, where the server lacks it or it does not know the language."""

from conch.bls.calls import Calls
from conch.component import Array
from conch.recognition.decoded import NOTHING_DECODED, Decoded
from conch.recognition.hooks import FirstPass
from conch.recognition.live.endpointing import SpeechProbs
from conch.recognition.live.state import Utterance


class NoFirstPass(FirstPass):
    """Hears nothing and keeps nothing: all text is that of the passes over the utterance."""

    encoder = ""

    async def hear(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> Utterance:
        """See `FirstPass.hear`."""
        return utterance

    async def hear_and_find_speech(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> tuple[Utterance, SpeechProbs]:
        """See `FirstPass.hear_and_find_speech`.

        Raises:
            NotImplementedError: always; without a VAD a stream has a first pass.
        """
        raise NotImplementedError

    async def read(
        self, utterance: Utterance, calls: Calls, *, is_over: bool
    ) -> tuple[Utterance, Decoded]:
        """See `FirstPass.read`."""
        return utterance, NOTHING_DECODED

    async def keep_alive(self, utterance: Utterance | None, calls: Calls) -> Utterance | None:
        """See `FirstPass.keep_alive`."""
        return utterance

    async def close(self) -> None:
        """See `FirstPass.close`."""
