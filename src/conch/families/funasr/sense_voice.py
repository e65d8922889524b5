"""The `sensevoice` component: segments to texts, with what is heard beside them."""

import math

import numpy as np

from conch.component import FloatArray, Outputs, Row, RowByRow, bytes_array, log_softmax
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.families.ctc.vocabulary import exported_vocabulary
from conch.families.funasr import SENSE_VOICE
from conch.families.funasr.folder import read_sense_voice
from conch.families.funasr.network import LowRateNetwork, opened_folder
from conch.families.search.graphs import FolderConfig
from conch.wire.errors import OptionError
from conch.wire.limits import MAX_SEGMENT_S

NUM_TAGS = 4
"""Frames in front of the text: language, emotion, event, and the form of the text."""
_UNKNOWN = {"emo_unknown", "event_unk", "nospeech"}


class SenseVoiceComponent(RowByRow):
    def __init__(self, config: FolderConfig) -> None:
        model = opened_folder(config, SENSE_VOICE, read_sense_voice)
        self._languages, self._text_forms = model.languages, model.text_forms
        self._tokens = model.tokens
        self._spoken = [
            unit for unit, token in enumerate(model.tokens) if _tag(token) in model.languages
        ]
        self._network = LowRateNetwork(model, config.threads)
        vocabulary = exported_vocabulary(model.tokens, 10 * model.front_end.shift)
        self._decoder = CtcDecoder(CtcDecoderConfig(), vocabulary)

    def answer(self, row: Row, /) -> Outputs:
        language = row.parameters.get("language", "auto")
        if language not in self._languages:
            raise OptionError(
                f"option 'language' takes {', '.join(self._languages)} with this SenseVoice; "
                f"sent: {language!r:.40}"
            )
        form = self._text_forms[row.parameters.get("itn") is True]
        waveform = row.segment(MAX_SEGMENT_S)
        outputs = self._network.run(waveform, self._languages[language], form)
        logits = outputs[0][0] if outputs else np.zeros((0, len(self._tokens)), np.float32)
        frames = logits[NUM_TAGS:]
        inputs = {
            "log_probs": log_softmax(frames) if len(frames) else frames,
            "log_probs_lens": np.array([len(frames)], np.int32),
        }
        parameters = {**row.parameters, "decoder": "ctc", "language": "auto"}
        decoded = self._decoder.answer(Row(inputs, parameters))
        return {**decoded, **self._tags(logits[:NUM_TAGS], is_given=language != "auto")}

    def _tags(self, logits: FloatArray, *, is_given: bool) -> Outputs:
        tags = [_tag(self._tokens[unit]) for unit in logits.argmax(axis=1)] if len(logits) else []
        language, emotion, event, *_ = ["" if tag in _UNKNOWN else tag for tag in tags] or [""] * 3
        probability = math.nan
        if language and not is_given:
            spoken = log_softmax(logits[:1, self._spoken])
            probability = math.exp(spoken.max())
        return {
            "language": bytes_array([language]),
            "emotion": bytes_array([emotion]),
            "event": bytes_array([event]),
            "language_probability": np.array([probability], np.float32),
        }


def _tag(token: str) -> str:
    """Return what a symbol such as <|HAPPY|> says; empty for others."""
    is_tag = token.startswith("<|") and token.endswith("|>")
    return token[2:-2].lower() if is_tag else ""
