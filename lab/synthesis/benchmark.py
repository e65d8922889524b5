"""The same texts by the bare package and by Conch's components, in one process with one thread."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from hibari import Hibari, dsp

from conch.bench.header import Flat, Header, header
from conch.bench.samples import Choice
from conch.component import Array, Row, bytes_array
from conch.component.arrays import FloatArray
from conch.families import voices
from conch.families.hibari.components import Acoustic, Vocoder
from conch.families.hibari.front_end import FrontEnd, FrontEndConfig
from conch.families.hibari.weights import HIBARI as NETWORK
from conch.families.hibari.weights import LATENTS, PITCH, SPECTRUM
from conch.families.speech.graphs import ACOUSTIC, VOCODER, VoiceConfig
from conch.scoring.tables import number, table
from conch.synthesis.speaking import Growth
from conch.wire.sentences import sentences
from lab.header import PROGRAM

HIBARI = voices()["hibari"]
CONFIG = VoiceConfig(nice=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisBenchmark(Choice):
    """Settings of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisReport:
    """The report of the benchmark."""

    header: Flat[Header]
    audio_s: float
    cpu_s_per_audio_s: Mapping[str, float]
    """By way to speak."""
    chunk_difference: float
    """Largest difference of a sample in chunks to the same one of the whole."""
    seam_ratio: float
    """Energy of the second difference at seams, beside that of the whole at the same places."""


class SameWeights(Hibari):  # type: ignore[misc]
    """The package with the weights of Conch's graphs: int8 for a sentence, floats for its sound."""

    def __init__(self) -> None:
        super().__init__()
        self._acoustic = NETWORK.open(CONFIG, ACOUSTIC)
        self._vocoder = NETWORK.open(CONFIG, VOCODER)

    def from_ids(self, ids: Sequence[int], speed: float = 1.0, rng: Any = None) -> FloatArray:
        """Return the sound of tokens."""
        inputs = {"ids": np.array([ids], np.int64), "speed": np.array([speed], np.float32)}
        latents, pitch = self._acoustic.run([LATENTS, PITCH], inputs)
        (spectrum,) = self._vocoder.run([SPECTRUM], {LATENTS: latents})
        parts = np.split(spectrum[0].T, 5)
        found: FloatArray = dsp.synth(*parts, pitch[0], rng or np.random.default_rng())
        return found


class Own:
    """Conch's components, called without a server."""

    def __init__(self) -> None:
        self._front = FrontEnd(FrontEndConfig(nice=0))
        self._acoustic, self._vocoder = Acoustic(CONFIG), Vocoder(CONFIG)

    def speak(self, text: str, growth: Growth) -> tuple[FloatArray, list[int]]:
        """Return the sound of a text in chunks, and its seams."""
        pieces, seams, samples = list[Array](), list[int](), 0
        for place in sentences(text):
            (read,) = self._front([Row({"text": bytes_array([text[place]])})])
            if not len(read["tokens"]):
                continue
            row = Row({"tokens": read["tokens"], "speed": np.ones(1, np.float32)})
            (voiced,) = self._acoustic([row])
            latents = voiced["latents"]
            for chunk in growth.chunks(len(latents), HIBARI.frames_before, HIBARI.frames_after):
                context = (chunk.start - chunk.first, chunk.last - chunk.end)
                place_of = np.array([*context, samples // HIBARI.frame_samples - context[0]])
                row = Row({"latents": latents[chunk.first : chunk.last], "context": place_of})
                (made,) = self._vocoder([row])
                pieces.append(made["waveform"])
                samples += len(pieces[-1])
                if chunk.end < len(latents):
                    seams.append(samples)
        return np.concatenate(pieces), seams


def run(benchmark: SynthesisBenchmark) -> SynthesisReport:
    """Measure and return the report."""
    texts = [item.text for item in benchmark.utterances()]
    begun = header("synthesis", benchmark, PROGRAM).with_triton("none")
    bare, same, own = Hibari(), SameWeights(), Own()
    ways: dict[str, Callable[[str], Any]] = {
        "package": bare,
        "package, same weights": same,
        "Conch, whole": lambda text: own.speak(text, Growth.of(HIBARI, inf))[0],
        "Conch, chunks": lambda text: own.speak(text, Growth.of(HIBARI))[0],
    }
    cpu, audio = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for speak in ways.values():
        speak(texts[0])
    for text in texts:
        for name, speak in ways.items():  # in turns: the machine changes
            before = time.process_time()
            samples = speak(text)
            cpu[name] += time.process_time() - before
            audio[name] += len(samples) / HIBARI.sample_rate
    difference, at_seams = 0.0, np.zeros(2)
    for text in texts:
        whole, _ = own.speak(text, Growth(10**6, 10**6, 1))
        chunked, seams = own.speak(text, Growth.of(HIBARI))
        difference = max(difference, float(np.abs(whole - chunked).max()))
        at_seams += [_roughness(chunked, seams), _roughness(whole, seams)]
    return SynthesisReport(
        header=begun,
        audio_s=round(audio["package"], 1),
        cpu_s_per_audio_s={name: round(cpu[name] / audio[name], 5) for name in ways},
        chunk_difference=difference,
        seam_ratio=round(float(at_seams[0] / at_seams[1]), 4),
    )


def _roughness(samples: FloatArray, places: Sequence[int]) -> float:
    """Return the energy of the second difference around places."""
    second = np.diff(samples.astype(np.float64), 2) ** 2
    return float(sum(second[place - 4 : place + 4].sum() for place in places))


def markdown(report: SynthesisReport) -> str:
    """Return the table of a report."""
    base = report.cpu_s_per_audio_s["package, same weights"]
    rows = [
        [name, number(value, 5), number(value / base, 2)]
        for name, value in report.cpu_s_per_audio_s.items()
    ]
    shown = table(["spoken by", "CPU s per audio s", "times the package"], rows)
    return (
        f"{shown}\n\n{report.audio_s:g} s of audio. Chunks differ from the whole by "
        f"{report.chunk_difference:.1e} at most; seams are {report.seam_ratio:g} times as rough.\n"
    )
