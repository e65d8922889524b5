"""Components made of plain functions: which test every path, without a server."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conch.bls.call import Call, StreamLostError
from conch.component import VAD_FRAME_SAMPLES, bytes_array
from conch.recognition.offline.coverage import CHARACTER_S, WORD_S
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ComponentError

STEP_S = 0.64
"""Length of a live step, and of a word in it."""
ENCODER_SAMPLES = 320
"""Of one frame of the attention encoder."""


class HostTensor:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return self.array


class PlainComponents:
    """Components for which any frame that is not silent is speech; a text is a first sample."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.inputs: list[Mapping[str, Any]] = []
        self.parameters: list[Mapping[str, Any]] = []
        self.wanted: list[Sequence[str]] = []
        self.timeouts_s: list[float | None] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.before: Callable[[str], Any] = lambda model: asyncio.sleep(0)
        self.failing: str | None = None
        self.failure: Exception | None = None
        """What a call of the failing component raises, if no error of its own."""
        self.missing: set[str] = set()
        self.open: dict[str, dict[str, list[Any]]] = {}
        """State of each open stream in each sequence-batched component."""
        self.behind_samples = 0
        """What a streaming encoder keeps back."""
        self.language_spoken, self.language_share = "en", math.nan
        self.says_end = False
        """Whether `transducer_streaming_decoder` says when a speaker has finished."""
        self.ended: list[tuple[str, str]] = []

    async def call(self, call: Call) -> Mapping[str, HostTensor]:
        model, inputs, parameters = call.model, call.inputs, call.parameters
        self.calls.append(model)
        self.inputs.append(inputs)
        self.parameters.append(parameters)
        self.wanted.append(call.outputs)
        self.timeouts_s.append(call.queue_timeout_s())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.before(model)
        finally:
            self.in_flight -= 1
        if model == self.failing:
            raise self.failure or ComponentError(f"{model}: out of order")
        arrays = {
            name: value.numpy() if isinstance(value, HostTensor) else value
            for name, value in inputs.items()
        }
        if call.sequence is None:
            outputs = getattr(self, model)(arrays, parameters)
        else:
            outputs = self._in_stream(model, arrays, parameters, call.sequence)
        return {name: HostTensor(outputs[name]) for name in call.outputs}

    def hold(self, *models: str) -> asyncio.Event:
        """Return an event for which calls of these components wait; without a name, all do."""
        let_go = asyncio.Event()

        async def wait(model: str) -> None:
            await (let_go.wait() if not models or model in models else asyncio.sleep(0))

        self.before = wait
        return let_go

    def meet(self, model: str, count: int) -> None:
        """Let calls of a component wait until so many have been made, at most ten seconds."""
        everyone_is_here = asyncio.Event()

        async def wait(called: str) -> None:
            if called == model:
                if self.calls.count(model) >= count:
                    everyone_is_here.set()
                await asyncio.wait_for(everyone_is_here.wait(), 10)

        self.before = wait

    def parameters_of(self, model: str) -> list[Mapping[str, Any]]:
        """Return the parameters of each call of a component."""
        calls = zip(self.calls, self.parameters, strict=True)
        return [parameters for called, parameters in calls if called == model]

    def give_up(self, model: str) -> None:
        """See `conch.bls.call.Components.give_up`; no process dies here."""

    async def is_loaded(self, model: str) -> bool:
        # A server has these only where somebody has chosen one.
        chosen = ("transducer", "paraformer", "sensevoice", "kaldi", "wenet")
        return model not in self.missing and not model.startswith(chosen)

    def waveforms(self, model: str) -> list[np.ndarray]:
        """Return the waveform of each call of a model."""
        calls = zip(self.calls, self.inputs, strict=True)
        return [inputs["waveform"] for called, inputs in calls if called == model]

    def vad(self, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        frames = inputs["waveform"][
            : len(inputs["waveform"]) // VAD_FRAME_SAMPLES * VAD_FRAME_SAMPLES
        ]
        speech = np.abs(frames).reshape(-1, VAD_FRAME_SAMPLES).max(axis=1) > 0
        state = inputs.get("state", np.zeros(1, np.float32)) + 1
        return {"speech_probs": speech.astype(np.float32), "state": state}

    def attention_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        waveform = inputs["waveform"]
        loudest = waveform[np.argmax(np.abs(waveform))]
        return {
            "encoder_out": np.full((2, 2), loudest, np.float32),
            "encoder_out_lens": np.array([max(2, len(waveform) // ENCODER_SAMPLES)], np.int32),
        }

    def attention_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        if "texts" in inputs:
            return {"text_scores": np.arange(len(inputs["texts"]), dtype=np.float32)}
        if "text" in inputs:
            words = inputs["text"][0].split()
            times = np.arange(len(words), dtype=np.float32)
            return {
                "words": np.array(words, dtype=object),
                "word_starts": times,
                "word_ends": times + 1,
                "word_confidences": np.full(len(words), 0.5, np.float32),
            }
        seconds = inputs["encoder_out_lens"].item() * ENCODER_SAMPLES / 16_000
        texts = self.spoken(inputs["encoder_out"][0, 0], seconds, parameters["nbest"])
        return {
            "hypotheses": bytes_array(texts),
            "scores": -np.arange(1, len(texts) + 1, dtype=np.float32),
            **self.language(parameters),
            **(self.aligned(texts[0], seconds) if parameters["align"] else {}),
        }

    def moonshine_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.attention_encoder(inputs, parameters)

    def moonshine_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.attention_decoder(inputs, parameters)

    def speaker_segmentation(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Call who speaks at a window's first level 1, at the next 2, at the one after that 3."""
        classes = []
        for start, end in zip(inputs["starts"], inputs["ends"], strict=True):
            window = inputs["waveform"][start:end]
            levels = np.round(np.abs(window[495:-495:270]), 2).tolist()
            known = [level for level in dict.fromkeys(levels) if level]
            classes.append([1 + known.index(level) if level else 0 for level in levels])
        return {"log_probs": np.log(np.eye(7, dtype=np.float32)[classes] + 1e-6)}

    def speaker_embedding(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Embed the level in the middle of each piece: other levels are other voices."""
        middles = (inputs["starts"] + inputs["ends"]) // 2
        levels = np.round(np.abs(inputs["waveform"][middles]) * 20).astype(int)
        return {"embeddings": np.eye(21, dtype=np.float32)[levels]}

    def end_of_turn(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """A speaker has finished if his last word was loud."""
        spoken = inputs["waveform"][inputs["waveform"] != 0]
        return {"probability": np.array([0.96 if spoken[-1] > 0.5 else 0.94], np.float32)}

    def language(self, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return `language_spoken`, detected if the request leaves it open."""
        asked = parameters["language"]
        share = self.language_share if asked == "auto" else math.nan
        return {
            "language": bytes_array([self.language_spoken if asked == "auto" else asked]),
            "language_probability": np.array([share], np.float32),
        }

    def spoken(self, level: float, seconds: float, nbest: int) -> list[str]:
        """Return the n-best of a segment by its loudest sample."""
        return [f"spoken {level:.2f} {rank}" for rank in range(nbest)]

    def aligned(self, text: str, seconds: float) -> dict[str, np.ndarray]:
        """Spread the words over all of the segment by length: of two seconds none is missing."""
        words = text.split()
        sizes = np.cumsum([0.0, *(WORD_S + CHARACTER_S * len(word) for word in words)])
        edges = (sizes * seconds / max(sizes[-1], WORD_S)).astype(np.float32)
        return {
            "words": bytes_array(words),
            "word_starts": edges[:-1],
            "word_ends": edges[1:],
            "word_confidences": np.full(len(words), 0.5, np.float32),
        }

    def ctc_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        encoded = self.attention_encoder(inputs, parameters)
        return {
            "log_probs": encoded["encoder_out"],
            "log_probs_lens": encoded["encoder_out_lens"],
        }

    def ctc_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        if "texts" in inputs:
            return {"text_scores": -np.arange(1, len(inputs["texts"]) + 1, dtype=np.float32)}
        text = f"heard {inputs['log_probs'][0, 0]:.2f}"
        return {
            "hypotheses": bytes_array([text]),
            "scores": np.array([-1], np.float32),
            "num_words": np.array([2], np.int32),
            **self.attention_decoder({"text": bytes_array([text])}, parameters),
            "am_scores": np.array([-1], np.float32),
            "lm_scores": np.zeros(1, np.float32),
            "lattice": bytes_array(["0 1,1,1"] if parameters.get("lattice") else []),
        }

    def punctuator(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Write the first letter large, and a period at the end."""
        text = inputs["text"][0].decode()
        size = len(text)
        return {
            "text": bytes_array([f"{text[0].upper()}{text[1:]}."]),
            "spans": np.array([[0, 1, 0, 1], [size, size, size, size + 1]], np.int32),
        }

    def inverse_normalizer(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Write the first two words as one."""
        text = inputs["text"][0].decode()
        end = text.find(" ", text.find(" ") + 1)
        end = len(text) if end < 0 else end
        new = f"<{text[:end].replace(' ', '+')}>"
        return {
            "text": bytes_array([new + text[end:]]),
            "spans": np.array([[0, end, 0, len(new)]], np.int32),
        }

    def _in_stream(self, model: str, inputs: Any, parameters: Any, sequence: ChunkPosition) -> Any:
        streams = self.open.setdefault(model, {})
        if sequence.starts:
            streams[sequence.stream_id] = []
        if sequence.stream_id not in streams:
            raise StreamLostError(f"{model}: must specify the START flag")
        outputs = getattr(self, model)(inputs, parameters, streams[sequence.stream_id])
        if sequence.ends:
            del streams[sequence.stream_id]
            self.ended.append((model, sequence.stream_id))
        return outputs

    def ctc_streaming_encoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        """One frame a step: its loudest sample."""
        frames = [[np.max(np.abs(inputs["waveform"]))]] if len(inputs["waveform"]) else []
        return {
            "log_probs": np.array(frames, np.float32).reshape(-1, 1),
            "log_probs_lens": np.array([len(frames)], np.int32),
            "speech_probs": np.array([float(level > 0) for (level,) in frames], np.float32),
            "frame_samples": np.array([len(inputs["waveform"])], np.int32),
            "behind_samples": np.array([self.behind_samples], np.int32),
        }

    def ctc_streaming_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        """A word for each step that is not silent; all but the last are stable."""
        kept += [f"{level:.2f}" for level in inputs["log_probs"].ravel().tolist() if level]
        words = list(kept)
        if parameters.get("is_over"):
            kept.clear()
        times = STEP_S * np.arange(len(words), dtype=np.float32)
        return {
            "hypotheses": bytes_array([" ".join(words)]),
            "scores": np.array([-len(words)], np.float32),
            "am_scores": np.array([-len(words)], np.float32),
            "lm_scores": np.zeros(1, np.float32),
            "num_words": np.array([len(words)], np.int32),
            "words": bytes_array(words),
            "word_starts": times,
            "word_ends": times + 0.5,
            "word_confidences": np.full(len(words), 0.5, np.float32),
            "stable": bytes_array([" ".join(words[:-1])]),
        }

    def paraformer(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        frames = self.ctc_encoder(inputs, parameters)
        return self.ctc_decoder(frames, parameters)

    paraformer_online = paraformer

    def sensevoice(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        tags = {name: bytes_array([name]) for name in ("emotion", "event")}
        return {**self.paraformer(inputs, parameters), **self.language(parameters), **tags}

    def paraformer_online_encoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        found = self.transducer_streaming_encoder(inputs, parameters, kept)
        return {name.replace("encoder_out", "units"): value for name, value in found.items()}

    def paraformer_online_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        return self.ctc_streaming_decoder({"log_probs": inputs["units"]}, parameters, kept)

    def kaldi_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.paraformer(inputs, parameters)

    def kaldi_streaming_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        heard = self.ctc_streaming_encoder(inputs, parameters, kept)
        return self.ctc_streaming_decoder(heard, parameters, kept)

    def wenet_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        found = self.ctc_encoder(inputs, parameters)
        return {name.replace("log_probs", "frames"): value for name, value in found.items()}

    def wenet_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.ctc_decoder({"log_probs": inputs["frames"]}, parameters)

    def wenet_streaming_encoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        found = self.ctc_streaming_encoder(inputs, parameters, kept)
        return {name.replace("log_probs", "frames"): value for name, value in found.items()}

    def wenet_streaming_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        return self.ctc_streaming_decoder({"log_probs": inputs["frames"]}, parameters, kept)

    def transducer_encoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.attention_encoder(inputs, parameters)

    def transducer_decoder(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        return self.ctc_decoder({"log_probs": inputs["encoder_out"]}, parameters)

    def transducer_streaming_encoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        found = self.ctc_streaming_encoder(inputs, parameters, kept)
        return {
            "encoder_out": found["log_probs"],
            "encoder_out_lens": found["log_probs_lens"],
            "behind_samples": found["behind_samples"],
        }

    def transducer_streaming_decoder(self, inputs: Any, parameters: Any, kept: list[Any]) -> Any:
        """Say at a loud word that the speaker has finished, if `says_end`."""
        found = self.ctc_streaming_decoder({"log_probs": inputs["encoder_out"]}, parameters, kept)
        is_loud = self.says_end and kept and float(kept[-1]) > 0.5
        return {**found, "ends_turn": np.array([bool(is_loud)], np.int32)}

    def rescorer(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Score the last hypothesis highest."""
        count = len(inputs["hypotheses"])
        return {
            "lm_scores": np.arange(-count, 0, dtype=np.float32) * 10,
            "num_words": np.full(count, 3, np.int32),
        }

    def neural_rescorer(self, inputs: Mapping[str, np.ndarray], parameters: Any) -> Any:
        """Score the last hypothesis highest, as `rescorer`, with twice as much between them."""
        scores = self.rescorer(inputs, parameters)
        return {**scores, "lm_scores": scores["lm_scores"] * 2}
