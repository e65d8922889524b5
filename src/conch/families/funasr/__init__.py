"""FunASR's models: one component each, from the waveform to the text."""

from dataclasses import replace

from conch.families.family import (
    ComponentInfo,
    Decoder,
    Family,
    FamilyHooks,
    ModelKind,
    TensorInfo,
    WeightsPackage,
)
from conch.families.options import Above, Other, Rule
from conch.families.search import (
    BEHIND,
    DEFAULT_WHEN,
    LIVE_PARAMETERS,
    PARAMETERS,
    PIECE,
    SEGMENT,
    WORD_TIMES,
    frames,
    hypotheses,
    live_hypotheses,
    live_takes_the_vad,
    rescoring_takes_a_weight,
    takes_no_names,
)

PARAFORMER, SENSE_VOICE, ONLINE = "paraformer", "sensevoice", "paraformer_online"
LIVE = (f"{ONLINE}_encoder", f"{ONLINE}_decoder")
UNITS = "units"
"""The tensor that goes from the encoder of live audio to its decoder."""
LANGUAGES = ("zh", "en", "yue", "ja", "ko")
"""Languages of SenseVoice."""

_TEXT = (
    TensorInfo("hypotheses", "BYTES", (1,), "the text; it may be empty"),
    TensorInfo("scores", "FP32", (1,), "sum of the log probabilities of its units"),
    TensorInfo("words", "BYTES", (-1,), "words of the text"),
    *WORD_TIMES,
    TensorInfo(
        "word_confidences", "FP32", (-1,), "geometric mean of the probabilities of the word's units"
    ),
)
_OF_RECORDINGS = ComponentInfo(
    name=PARAFORMER,
    role="waveform to text",
    title="Paraformer",
    step="decode",
    inputs=(SEGMENT,),
    outputs=_TEXT,
    parameters={"language": str, "hotwords": str},
    is_one_by_one=True,
    package=WeightsPackage(PARAFORMER, "", "", f"conch serve --{PARAFORMER} FOLDER"),
)
_ONLINE_PACKAGE = WeightsPackage(
    "online Paraformer", "", "", "conch serve --paraformer-online FOLDER"
)
_LIVE_HYPOTHESES = hypotheses(
    scores="sum of the log probabilities of its units",
    am_scores="as `scores`",
    lm_scores="0",
    word_confidences="geometric mean of the probabilities of the word's units",
)

FAMILY = Family(
    name="funasr",
    title="FunASR",
    components=(
        _OF_RECORDINGS,
        replace(_OF_RECORDINGS, name=ONLINE, title="Paraformer, online", package=_ONLINE_PACKAGE),
        ComponentInfo(
            name=LIVE[0],
            role="live audio to units",
            title="Paraformer, live",
            step="encode",
            inputs=(PIECE,),
            outputs=(
                TensorInfo(
                    UNITS,
                    "FP32",
                    (-1, -1),
                    "[frames, 2] of the chunks that these samples complete, one frame per 60 ms: "
                    "the number of the unit that is found in it, or 0, and its log probability",
                ),
                TensorInfo(f"{UNITS}_lens", "INT32", (1,), "number of frames; 0 without a chunk"),
                BEHIND,
            ),
            is_stream=True,
            package=_ONLINE_PACKAGE,
        ),
        ComponentInfo(
            name=LIVE[1],
            role="live units to the text so far",
            title="Paraformer, live",
            step="decode",
            inputs=frames(UNITS, is_live=True),
            outputs=live_hypotheses(ONLINE, _LIVE_HYPOTHESES),
            parameters=LIVE_PARAMETERS,
            is_stream=True,
            package=_ONLINE_PACKAGE,
        ),
        ComponentInfo(
            name=SENSE_VOICE,
            role="waveform to text, language and emotion",
            title="SenseVoice",
            step="decode",
            inputs=(SEGMENT,),
            outputs=(
                *hypotheses(
                    scores="the order of the texts: `am_scores` plus hotwords",
                    am_scores="log probability of the text given the audio",
                    lm_scores="0",
                    word_confidences="geometric mean of the probabilities of the word's units",
                ),
                TensorInfo(
                    "language", "BYTES", (1,), "code of the language that is heard, or empty"
                ),
                TensorInfo(
                    "language_probability",
                    "FP32",
                    (1,),
                    "its probability among those of the model; NaN if it was asked for",
                ),
                TensorInfo("emotion", "BYTES", (1,), "how it is said, such as happy, or empty"),
                TensorInfo("event", "BYTES", (1,), "what is heard, such as laughter, or empty"),
            ),
            parameters={**PARAMETERS, "itn": bool},
            is_one_by_one=True,
            package=WeightsPackage(SENSE_VOICE, "", "", f"conch serve --{SENSE_VOICE} FOLDER"),
        ),
    ),
    models=(
        ModelKind(
            name=PARAFORMER,
            title="Paraformer",
            components=(PARAFORMER,),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with a Paraformer of FunASR",
            check="conch.families.funasr.folder:check_paraformer",
            networks="conch.families.funasr.folder:networks_of_paraformer",
        ),
        ModelKind(
            name=ONLINE,
            title="online Paraformer",
            components=(ONLINE, *LIVE),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with an online one, which hears live audio too",
            check="conch.families.funasr.folder:check_online_paraformer",
            networks="conch.families.funasr.folder:networks_of_online_paraformer",
        ),
        ModelKind(
            name=SENSE_VOICE,
            title="SenseVoice",
            components=(SENSE_VOICE,),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with a SenseVoice of FunASR",
            check="conch.families.funasr.folder:check_sense_voice",
            networks="conch.families.funasr.folder:networks_of_sense_voice",
        ),
    ),
    decoders=(
        Decoder(
            name=PARAFORMER,
            components=(PARAFORMER,),
            default_when=DEFAULT_WHEN,
            detects_language=True,
            is_rolling=True,
        ),
        Decoder(
            name=ONLINE,
            components=(ONLINE,),
            live=LIVE,
            live_when={"decoder": ONLINE},
            default_when=DEFAULT_WHEN,
            detects_language=True,
        ),
        Decoder(
            name=SENSE_VOICE,
            components=(SENSE_VOICE,),
            default_when={**DEFAULT_WHEN, "language": ("auto", *LANGUAGES)},
            follows=("itn",),
            detects_language=True,
            languages=LANGUAGES,
            is_rolling=True,
            presets={"balanced": {"beam_size": 8}, "best": {"beam_size": 16}},
        ),
    ),
    rules=(
        Rule(
            {"beam_size": Above(1), "decoder": (PARAFORMER, ONLINE)},
            "option 'beam_size' takes 1 with decoder {decoder}, which finds one text; sent: "
            "{beam_size}",
        ),
        *takes_no_names(ONLINE, "which has no search"),
        Rule(
            {"rescore": True, "decoder": (PARAFORMER, ONLINE)},
            "option 'rescore' does not go with decoder {decoder}, which finds one text",
        ),
        live_takes_the_vad(ONLINE),
        rescoring_takes_a_weight(SENSE_VOICE),
        Rule(
            {"language": Other(("auto", *LANGUAGES)), "decoder": SENSE_VOICE},
            f"option 'language' takes auto, {', '.join(LANGUAGES)} with decoder sensevoice; sent: "
            "{language!r:.40}",
        ),
    ),
    warm_ups=(
        *({"decoder": name} for name in (PARAFORMER, ONLINE, SENSE_VOICE)),
        {"decoder": ONLINE, "mode": "streaming"},
    ),
    hooks=FamilyHooks(
        recognisers={
            PARAFORMER: "conch.families.funasr.recogniser:PARAFORMER_RECOGNISER",
            ONLINE: "conch.families.funasr.recogniser:ONLINE_RECOGNISER",
            SENSE_VOICE: "conch.families.funasr.recogniser:SENSE_VOICE_RECOGNISER",
        },
        first_passes={ONLINE: "conch.families.funasr.recogniser:OnlineFirstPass"},
    ),
)
