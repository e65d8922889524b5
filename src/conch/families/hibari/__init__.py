"""hibari: an English voice of 14 MB, with a front end of its own. Apache-2.0."""

from conch.families.family import (
    ComponentInfo,
    Family,
    Synthesizer,
    TensorInfo,
    Voice,
    WeightsPackage,
)
from conch.families.speech import acoustic, vocoder

PACKAGE = WeightsPackage(what="hibari voice", module="hibari", distribution="hibari-tts")

SAMPLE_RATE, FRAME_SAMPLES = 24_000, 300
SPECTRUM_FRAMES = 27
"""Frames on each side that a frame of the spectrum hears: nine convolutions of seven frames."""
MAX_TOKENS = 1500

TEXT_FRONTEND = ComponentInfo(
    name="text_frontend",
    role="a sentence to the sounds that it is spoken with",
    title="Front end",
    step="read",
    inputs=(TensorInfo("text", "BYTES", (1,), "one sentence, UTF-8, at most 10,000 bytes"),),
    outputs=(
        TensorInfo("phonemes", "BYTES", (1,), "the sounds, for people; empty if it has none"),
        TensorInfo("tokens", "INT32", (-1,), "the sounds for `acoustic`; none if it has none"),
        TensorInfo(
            "spans",
            "INT32",
            (-1, 4),
            "the words: start and end in the text, in characters, the first of their tokens and "
            "the one behind the last",
        ),
    ),
    parameters={"voice": str, "normalize": bool},
    is_one_by_one=True,
    package=PACKAGE,
)
ACOUSTIC, VOCODER = acoustic("acoustic", PACKAGE), vocoder("vocoder", PACKAGE)

FAMILY = Family(
    name="hibari",
    title="hibari",
    components=(TEXT_FRONTEND, ACOUSTIC, VOCODER),
    synthesizers=(
        Synthesizer(
            name="hibari",
            text_frontend=TEXT_FRONTEND.name,
            acoustic=ACOUSTIC.name,
            vocoder=VOCODER.name,
            sample_rate=SAMPLE_RATE,
            frame_samples=FRAME_SAMPLES,
            # The inverse transform of a frame's sound needs one frame before it and two behind.
            frames_before=SPECTRUM_FRAMES + 1,
            frames_after=SPECTRUM_FRAMES + 2,
            phrases=(100, 240),
            # Each chunk makes the frames around it too, so short ones cost more; the first one of
            # another text waits for one that is being made.
            first_frames=16,
            growth=3,
            most_frames=240,
            voices=(Voice("hibari", "en-US", "American English, female"),),
        ),
    ),
)
