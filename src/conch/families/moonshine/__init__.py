"""Moonshine (Jeffries et al., 2024, https://arxiv.org/abs/2410.15608): English, any length."""

from conch.families.attention import attention_components
from conch.families.family import (
    Decoder,
    Family,
    KnownFile,
    KnownModel,
    ModelKind,
    WeightsPackage,
)
from conch.families.options import Other, Rule, widest_beam

_COMMAND = "pip install --no-deps moonshine-cpp==0.1.4 useful-moonshine-onnx==20251121"
TOKENIZER = WeightsPackage(
    "tokenizer of Moonshine", "moonshine_onnx", "useful-moonshine-onnx", _COMMAND
)
PACKAGE = WeightsPackage(
    "Moonshine model", "moonshine_cpp", "moonshine-cpp", _COMMAND, also_needs=TOKENIZER
)
FILES = ("encoder_model.ort", "decoder_model_merged.ort", "tokenizer.json")
"""A model as packages bring it."""
STEP_FILES = {"step_1.onnx": 1, "step_8.onnx": 8}
"""The decoder's graphs, by the segments that they take in one step."""
GRAPH_FILES = ("encoder.onnx", "cross.onnx", *STEP_FILES, "tokenizer.json")
"""A model as Conch runs it."""
COMPONENTS = ("moonshine_encoder", "moonshine_decoder")
LANGUAGES = ("en",)
MAX_TOKENS = 256
"""Positions of the decoder."""
START, END = 1, 2
"""Tokens before a text and behind it."""
MAX_BEAM = 32
"""Hypotheses of a segment that the decoder searches, or scores."""

_ENCODER, _DECODER, _TOKENIZER = FILES
_TOKENS = KnownFile(
    1_985_533,
    "b68b995a58b3373db6c4f46864a9db50cd1333d086150ffa2c1096581ede9c10",
    ("moonshine_onnx/assets/tokenizer.json",),
)
_TOKENS_FROM = "useful-moonshine-onnx==20251121"


def _model(
    size: str,
    title: str,
    package: str,
    folder: str,
    encoder: tuple[int, str],
    decoder: tuple[int, str],
    shipped: WeightsPackage | None = None,
) -> KnownModel:
    """Return a Moonshine whose encoder and decoder, bytes and sha256, lie in a folder."""
    files = {
        name: KnownFile(*known, (f"{folder}/{name}",))
        for name, known in ((_ENCODER, encoder), (_DECODER, decoder))
    }
    return KnownModel(
        name=f"moonshine-{size}",
        kind="moonshine",
        title=title,
        languages=1,
        licence="MIT",
        requirements=(package, _TOKENS_FROM),
        files={**files, _TOKENIZER: _TOKENS},
        shipped=shipped,
    )


TINY = _model(
    "tiny",
    "Moonshine tiny",
    # Later versions have no models.
    "moonshine-voice==0.0.73",
    "moonshine_voice/assets/tiny-en",
    (13_281_600, "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221"),
    (30_412_256, "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0"),
)
BASE = _model(
    "base",
    "Moonshine base, the default where its packages are installed",
    "moonshine-cpp==0.1.4",
    "moonshine_cpp/models/base-en",
    (20_661_976, "9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c"),
    (42_703_232, "370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3"),
    PACKAGE,
)

FAMILY = Family(
    name="moonshine",
    title="Moonshine",
    known_models=(TINY, BASE),
    components=attention_components(COMPONENTS, "Moonshine", PACKAGE, max(STEP_FILES.values())),
    models=(
        ModelKind(
            name="moonshine",
            title="Moonshine",
            components=COMPONENTS,
            form="a folder with the files of one",
            others="conch models lists them",
            help=(
                "the Moonshine of the server that this starts: a name that conch models lists, "
                "such as tiny, or a folder with the files of one (default: base)"
            ),
            value="MODEL",
            check="conch.families.moonshine.weights:check_moonshine",
        ),
    ),
    decoders=(
        Decoder(
            name="moonshine",
            components=COMPONENTS,
            recogniser="conch.families.moonshine.recogniser:MOONSHINE",
            languages=LANGUAGES,
            doubtful_below=-0.15,
            default_when={
                "language": ("auto", *LANGUAGES),
                "languages": "",
                "task": "transcribe",
                "prompt": "",
            },
            writes_punctuation=True,
            detects_language=True,
            may_omit_speech=True,
            is_rolling=True,
            takes=("ctc_rescore",),
            rescored={"beam_size": 10},
            presets={
                "balanced": {"rescore": True, "beam_size": 5, "rescore_margin": 1.0},
                "best": {"rescore": True, "ctc_rescore": True},
            },
            weights={
                ("ngram",): {"lm": 0.12, "word_bonus": -0.5},
                ("neural",): {"lm": 0.15},
                ("ctc",): {"ctc": 0.05, "word_bonus": -0.5},
                ("ctc", "ngram"): {"lm": 0.22, "ctc": 0.1, "word_bonus": -0.5},
                ("ctc", "neural"): {"lm": 0.2, "ctc": 0.05},
            },
        ),
    ),
    rules=(
        Rule(
            {"language": Other(("auto", *LANGUAGES)), "decoder": "moonshine"},
            "option 'language' takes auto or en with decoder moonshine, which knows English only; "
            "sent: {language!r:.40}",
        ),
        *widest_beam(MAX_BEAM, "moonshine"),
    ),
    warm_ups=({"decoder": "moonshine"},),
)
