"""A transducer as a recogniser, whose encoder may hear for a language."""

from conch.bls.call import Parameter
from conch.bls.calls import Calls
from conch.component import Array
from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import EncodedFrames, SearchRecogniser
from conch.families.transducer import FRAMES, LIVE, OFFLINE
from conch.recognition.speech import Decoded
from conch.wire.options import RecognitionOptions


class _TransducerRecogniser(SearchRecogniser):
    async def encode(self, calls: Calls, waveform: Array) -> EncodedFrames:
        return EncodedFrames.of_samples(waveform)

    async def decode(
        self, calls: Calls, encoded: EncodedFrames, options: RecognitionOptions, start: float | None
    ) -> Decoded:
        waveform, wanted = encoded.numpy(), (FRAMES, f"{FRAMES}_lens")
        outputs = await calls(self.encoder, encoded.inputs, wanted, {"language": options.language})
        frames = EncodedFrames.of(FRAMES, outputs, waveform)
        return await super().decode(calls, frames, options, start)


TRANSDUCER = _TransducerRecogniser(*OFFLINE, frames=FRAMES)


class TransducerFirstPass(SearchFirstPass):
    encoder, decoder = LIVE
    frames = FRAMES
    says_end = True

    def encoder_parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        return {"language": options.language}
