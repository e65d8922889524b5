"""What hibari declares: a front end, an acoustic model and a vocoder, and its voice."""

from conch.families.family import Component, Family, Synthesizer, Tensor, Voice, WeightsPackage

PACKAGE = WeightsPackage(what="hibari voice", module="hibari", distribution="hibari-tts")

SAMPLE_RATE, FRAME_SAMPLES = 24_000, 300
SPECTRUM_FRAMES = 27
"""Frames on each side that a frame of the spectrum hears: nine convolutions of seven frames."""
MAX_TOKENS, MAX_FRAMES = 1500, 20_000
"""Most tokens of a sentence, and most frames of a call of `vocoder`."""

TEXT_FRONTEND = Component(
    name="text_frontend",
    role="a sentence to the sounds that it is spoken with",
    title="Front end",
    step="read",
    inputs=(Tensor("text", "BYTES", (1,), "one sentence, UTF-8, at most 10,000 bytes"),),
    outputs=(
        Tensor("phonemes", "BYTES", (1,), "the sounds, for people; empty if it has none"),
        Tensor("tokens", "INT32", (-1,), "the sounds for `acoustic`; none if it has none"),
        Tensor(
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
ACOUSTIC = Component(
    name="acoustic",
    role="the sounds of a sentence to what the voice does over time",
    title="Acoustic model",
    step="voice",
    inputs=(
        Tensor("tokens", "INT32", (-1,), "of `text_frontend`, at least one"),
        Tensor("speed", "FP32", (1,), "0.25 to 4; 1 is the voice's own"),
    ),
    outputs=(
        Tensor("latents", "FP32", (-1, -1), "[frames, channels] for the `vocoder` of the family"),
        Tensor("durations", "INT32", (-1,), "frames of each token"),
    ),
    parameters={"voice": str},
    is_one_by_one=True,
    package=PACKAGE,
)
VOCODER = Component(
    name="vocoder",
    role="what the voice does to its waveform",
    title="Vocoder",
    step="sound",
    inputs=(
        Tensor("latents", "FP32", (-1, -1), "frames of `acoustic`, with those around them"),
        Tensor(
            "context",
            "INT32",
            (3,),
            "frames in front that are not spoken, frames behind, and the place of the first frame "
            "in the whole text, by which noise is drawn",
        ),
    ),
    outputs=(Tensor("waveform", "FP32", (-1,), "samples of the spoken frames"),),
    parameters={"voice": str, "seed": int},
    is_one_by_one=True,
    package=PACKAGE,
)

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
            voices=(Voice("hibari", "en-US", "American English, female"),),
        ),
    ),
)
