"""Families whose decoder attends to hidden states, Whisper and Moonshine: their shared tensors."""

from collections.abc import Mapping

from conch.families.family import ComponentInfo, TensorInfo, WeightsPackage


def attention_encoder(
    name: str,
    title: str,
    package: WeightsPackage,
    *,
    longest: str,
    frame: str,
    parameters: Mapping[str, type] | None = None,
) -> ComponentInfo:
    """Return an encoder; `longest` says what a waveform is, `frame` what a hidden state is."""
    return ComponentInfo(
        name=name,
        role="waveform to hidden states",
        title=title,
        step="encode",
        inputs=(TensorInfo("waveform", "FP32", (-1,), longest),),
        outputs=(
            TensorInfo("encoder_out", "FP32", (-1, -1), frame),
            TensorInfo(
                "encoder_out_lens",
                "INT32",
                (1,),
                "frames that the segment fills, at least 1; the rest is padding",
            ),
        ),
        parameters=parameters or {},
        is_one_by_one=True,
        package=package,
    )


def attention_decoder(
    name: str,
    title: str,
    package: WeightsPackage,
    *,
    in_flight: int = 0,
    parameters: Mapping[str, type] | None = None,
) -> ComponentInfo:
    return ComponentInfo(
        name=name,
        role="hidden states to text",
        title=title,
        step="decode",
        inputs=(
            TensorInfo("encoder_out", "FP32", (-1, -1), "as the encoder returned it"),
            TensorInfo("encoder_out_lens", "INT32", (1,), "as the encoder returned it"),
            TensorInfo(
                "text", "BYTES", (1,), "a text to align instead of decoding", is_optional=True
            ),
            TensorInfo(
                "texts", "BYTES", (-1,), "texts to score instead of decoding", is_optional=True
            ),
        ),
        outputs=(
            TensorInfo("hypotheses", "BYTES", (-1,), "n-best texts, best first (decoding)"),
            TensorInfo(
                "scores",
                "FP32",
                (-1,),
                "the order of the texts. Best text: sum of its tokens' log probabilities, with "
                "the end of text. Others: mean over their own tokens, times the number of tokens "
                "of the best (decoding)",
            ),
            TensorInfo(
                "language",
                "BYTES",
                (1,),
                "code of the language of the speech: the one asked for, or the one detected "
                "(decoding)",
            ),
            TensorInfo(
                "language_probability",
                "FP32",
                (1,),
                "its probability, among `languages` if they are sent. NaN without detection: a "
                "language was asked for, or the model has only one (decoding)",
            ),
            TensorInfo(
                "words",
                "BYTES",
                (-1,),
                "words of the text, with punctuation (alignment; decoding with `align`)",
            ),
            *(
                TensorInfo(
                    name,
                    "FP32",
                    (-1,),
                    "seconds from the segment's start, 0 <= start < end; words do not overlap (as "
                    "`words`)",
                )
                for name in ("word_starts", "word_ends")
            ),
            TensorInfo(
                "word_confidences",
                "FP32",
                (-1,),
                "geometric mean of the probabilities of the word's tokens, without punctuation "
                "(as `words`)",
            ),
            TensorInfo(
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
            **(parameters or {}),
        },
        # Its work hangs on more than its input: it decodes up to hundreds of tokens, where 40 are
        # usual, and again for a text that loops, or that comes from the prompt alone.
        hang_factor=60.0,
        in_flight=in_flight,
        package=package,
    )
