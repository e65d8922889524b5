"""What the authors' runtimes hear with a folder: sherpa-onnx, and funasr-onnx for FunASR's own.

pip install sherpa-onnx funasr-onnx
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conch.catalogue.exports import TOKENS
from conch.component import SAMPLE_RATE, FloatArray, log_softmax
from conch.decoding.hypothesis import unit_runs
from conch.families.ctc.folder import read_ctc
from conch.families.funasr.folder import (
    TOKEN_LIST,
    read_online_paraformer,
    read_paraformer,
    read_sense_voice,
)
from conch.families.funasr.sense_voice import NUM_TAGS
from conch.families.transducer.folder import read_transducer

_TAIL_S = {"paraformer_online": 0.9}
"""Seconds of silence behind live audio, as in the examples of sherpa-onnx."""
_USUAL_TAIL_S = 0.66
_CTC = {
    "zipformer2_ctc": "from_zipformer_ctc",
    "wenet_ctc": "from_wenet_ctc",
    "waveform": "from_omnilingual_asr_ctc",
    "omnilingual-asr": "from_omnilingual_asr_ctc",
    "medasr_ctc": "from_medasr_ctc",
    "dolphin": "from_dolphin_ctc",
    "telespeech_ctc": "from_telespeech_ctc",
    "fire-red-asr-2-ctc": "from_fire_red_asr_ctc",
}
_TAG = re.compile(r"<\|[^|]*\|>")


@dataclass(frozen=True, slots=True)
class PeerResult:
    text: str
    times: Sequence[float] = ()
    """Seconds of each unit."""
    units: Sequence[str] = ()
    log_probs: Sequence[float] = ()
    """Of each unit; empty where the peer does not tell them."""


Peer = Callable[[FloatArray], PeerResult]
"""Hears a waveform, float32 `[samples]` at 16 kHz."""


def peer_of(
    model_kind: str,
    folder: Path,
    beam_size: int = 1,
    step: int = 0,
    *,
    is_live: bool = False,
    language: str = "",
) -> Peer | None:
    """Return who hears with a folder; None if no peer has this search.

    A beam of 1 is the greedy search, and a step of 0 sends all audio at once. `is_live` chooses the
    network of live audio where there are two. `language` is for a model with prompts.
    """
    if beam_size > 1 and model_kind != "transducer":
        return None
    if model_kind in ("sensevoice", "paraformer") and (folder / TOKEN_LIST).is_file():
        return _funasr(model_kind, folder)
    recognizer = recognizer_of(model_kind, folder, beam_size, is_live=is_live)
    if hasattr(recognizer, "is_ready"):
        tail_s = _TAIL_S.get(model_kind, _USUAL_TAIL_S)
        if model_kind == "transducer" and (live := read_transducer(folder).live):
            tail_s *= not live.takes_rest
        return lambda waveform: _streamed(
            recognizer, waveform, step or len(waveform), tail_s, language
        )
    return lambda waveform: _whole(recognizer, waveform)


def recognizer_of(
    model_kind: str, folder: Path, beam_size: int = 1, *, is_live: bool = False
) -> Any:
    import sherpa_onnx

    online, offline = sherpa_onnx.OnlineRecognizer, sherpa_onnx.OfflineRecognizer
    shared = {"tokens": str(folder / TOKENS), "num_threads": 1}
    if model_kind == "transducer":
        transducer = read_transducer(folder)
        shared |= {name: str(path) for name, path in transducer.parts.items()}
        shared |= {"max_active_paths": beam_size}
        shared["decoding_method"] = "modified_beam_search" if beam_size > 1 else "greedy_search"
        if is_live or transducer.encoder.is_live:
            return online.from_transducer(**shared, temperature_scale=1.0)
        name = "nemo_transducer" if transducer.lstm else "transducer"
        return offline.from_transducer(**shared, model_type=name)
    if model_kind == "ctc":
        ctc = read_ctc(folder)
        if is_live or (ctc.live and ctc.live.path == ctc.recordings.path):
            assert ctc.live
            name = "from_wenet_ctc" if ctc.model_type == "wenet_ctc" else "from_zipformer2_ctc"
            return getattr(online, name)(model=str(ctc.live.path), **shared)
        name = _CTC.get(ctc.model_type, "from_nemo_ctc")
        return getattr(offline, name)(model=str(ctc.recordings.path), **shared)
    if model_kind == "paraformer_online":
        parts = read_online_paraformer(folder, "float32")
        return online.from_paraformer(
            encoder=str(parts.network), decoder=str(parts.decoder), **shared
        )
    if model_kind == "paraformer":
        network = read_paraformer(folder, "float32").network
        return offline.from_paraformer(paraformer=str(network), **shared)
    network = read_sense_voice(folder, "float32").network
    return offline.from_sense_voice(model=str(network), **shared)


def _whole(recognizer: Any, waveform: FloatArray) -> PeerResult:
    stream = recognizer.create_stream()
    stream.accept_waveform(SAMPLE_RATE, waveform)
    recognizer.decode_stream(stream)
    recognised = stream.result
    return PeerResult(
        _joined(recognised.text), recognised.timestamps, recognised.tokens, recognised.ys_log_probs
    )


def _streamed(
    recognizer: Any, waveform: FloatArray, step: int, tail_s: float, language: str
) -> PeerResult:
    stream = recognizer.create_stream()
    stream.set_option("language", language)
    tail = np.zeros(round(tail_s * SAMPLE_RATE), np.float32)
    for piece in (*np.split(waveform, range(step, len(waveform), step)), tail):
        stream.accept_waveform(SAMPLE_RATE, piece)
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
    stream.input_finished()
    while recognizer.is_ready(stream):
        recognizer.decode_stream(stream)
    recognised = recognizer.get_result_all(stream)
    return PeerResult(
        _joined(recognised.text), recognised.timestamps, recognised.tokens, recognised.ys_probs
    )


def _funasr(model_kind: str, folder: Path) -> Peer:
    import funasr_onnx

    if model_kind == "paraformer":
        model = funasr_onnx.Paraformer(str(folder), intra_op_num_threads=1)
        return lambda waveform: PeerResult(_joined(model(waveform)[0]["preds"][0]))
    voice = funasr_onnx.SenseVoiceSmall(str(folder), intra_op_num_threads=1)
    tokens = json.loads((folder / TOKEN_LIST).read_text("utf-8"))

    def recognised(waveform: FloatArray) -> PeerResult:
        auto, plain = np.zeros(1, np.int32), np.full(1, 15, np.int32)
        logits, _ = voice.infer(*voice.extract_feat([waveform]), auto, plain)
        frames = log_softmax(logits[0, NUM_TAGS:])
        best = frames.argmax(1)
        units, _, _, log_probs = unit_runs(best, frames.max(1))
        text = _TAG.sub("", voice(waveform)[0])
        return PeerResult(_joined(text), (), [tokens[unit] for unit in units], log_probs.tolist())

    return recognised


def _joined(text: str) -> str:
    return " ".join(text.split())
