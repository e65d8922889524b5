"""Piper: voices of the user's own, each a network of VITS in a file."""

from conch.families.family import Family, ModelKind, Synthesizer, WeightsPackage
from conch.families.hibari import TEXT_FRONTEND
from conch.families.speech import speaking_components

NAME = "piper"
PACKAGE = WeightsPackage("Piper voices", "", "", "conch serve --piper FOLDER")
MAX_TOKENS = 1500

BEGIN, BETWEEN, END = "^", "_", "$"
"""Units around a sentence, and the one behind each unit."""
_WRITTEN = (
    "A=eɪ I=aɪ O=oʊ Q=əʊ W=aʊ Y=ɔɪ ʤ=dʒ ʧ=tʃ ᵊ=ə T=ɾ ɑ=ɑː ɔ=ɔː u=uː ˈi=ˈiː ˌi=ˌiː ɜɹ=ɜː əɹ=ɚ "  # noqa: RUF001
    "—=, …=."
)
SOUNDS = dict(pair.split("=") for pair in _WRITTEN.split())
"""Symbols of espeak, by which these voices learned, for sounds of the front end; the longest sound
that fits counts. Other sounds are written alike."""
UNITS = frozenset(f"{BEGIN}{BETWEEN}{END} ,.:;?!abdefhijklmnopstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒθˈˌː")  # noqa: RUF001
"""Units without which a voice cannot speak English."""

ACOUSTIC, VOCODER = speaking_components("piper_acoustic", "piper_vocoder", package=PACKAGE)

FAMILY = Family(
    name=NAME,
    title="Piper",
    components=(ACOUSTIC, VOCODER),
    models=(
        ModelKind(
            name=NAME,
            title="Piper",
            components=(ACOUSTIC.name, VOCODER.name),
            form="a folder with NAME.onnx and NAME.onnx.json of each voice",
            others="docs/guide/speech-out.md says what it holds",
            check="conch.families.piper.folder:check_piper",
        ),
    ),
    synthesizers=(
        Synthesizer(
            name=NAME,
            text_frontend=TEXT_FRONTEND.name,
            acoustic=ACOUSTIC.name,
            vocoder=VOCODER.name,
            # Of most voices; each says its own.
            sample_rate=22_050,
            frame_samples=256,
            frames_before=12,
            frames_after=12,
            phrases=(60, 240),
            first_frames=24,
            growth=2,
            most_frames=172,
            voices=(),
        ),
    ),
)
