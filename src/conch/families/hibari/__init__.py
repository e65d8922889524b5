"""hibari: an English voice of 14 MB, with a front end of its own. Apache-2.0."""

from conch.families.family import (
    ComponentInfo,
    Family,
    Synthesizer,
    Voice,
    WeightsPackage,
)
from conch.families.speech import speaking_components

PACKAGE = WeightsPackage(what="hibari voice", module="hibari", distribution="hibari-tts")

SAMPLE_RATE, FRAME_SAMPLES = 24_000, 300
SPECTRUM_FRAMES = 27
"""Frames on each side that a frame of the spectrum hears: nine convolutions of seven frames."""
MAX_TOKENS = 1500

TEXT_FRONTEND = ComponentInfo(
    name="text_frontend", title="Front end", step="read", is_one_by_one=True, package=PACKAGE
)
ACOUSTIC, VOCODER = speaking_components("acoustic", "vocoder", package=PACKAGE)

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
