"""The same texts by the bare package and by Conch's components, in one process with one thread."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from hibari import Hibari

from conch.bench.header import Flat, Header
from conch.bench.samples import Choice
from conch.cli.bench import settings_of
from conch.component import Array, FloatArray, Row, bytes_array
from conch.families import voices
from conch.families.hibari.components import HibariAcoustic, HibariVocoder
from conch.families.hibari.front_end import FrontEnd, FrontEndConfig
from conch.families.speech.graphs import VoiceConfig
from conch.scoring.error_rates import number, table
from conch.synthesis.speaking import Growth
from conch.wire.sentences import sentences
from lab.command import Command, lab_header, reporting

HIBARI = voices()["hibari"]
CONFIG = VoiceConfig(nice=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisReport:
    header: Flat[Header]
    audio_s: float
    cpu_s_per_audio_s: Mapping[str, float]
    """By way to speak."""
    chunk_difference: float
    """Largest difference of a sample in chunks to the same one of the whole."""


class Own:
    """Conch's components, called without a server."""

    def __init__(self) -> None:
        self._front = FrontEnd(FrontEndConfig(nice=0))
        self._acoustic, self._vocoder = HibariAcoustic(CONFIG), HibariVocoder(CONFIG)

    def speak(self, text: str, growth: Growth) -> FloatArray:
        pieces, samples = list[Array](), 0
        for span in sentences(text):
            (read,) = self._front([Row({"text": bytes_array([text[span]])})])
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
        return np.concatenate(pieces)


def run(benchmark: Choice) -> SynthesisReport:
    texts = [item.text for item in benchmark.utterances()]
    begun = lab_header("synthesis", benchmark).with_triton("none")
    bare, own = Hibari(), Own()
    ways: dict[str, Callable[[str], Any]] = {
        "package": bare,
        "Conch, whole": lambda text: own.speak(text, Growth.of(HIBARI, inf)),
        "Conch, chunks": lambda text: own.speak(text, Growth.of(HIBARI)),
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
    difference = 0.0
    for text in texts:
        whole = own.speak(text, Growth(10**6, 10**6, 1))
        chunked = own.speak(text, Growth.of(HIBARI))
        difference = max(difference, float(np.abs(whole - chunked).max()))
    return SynthesisReport(
        header=begun,
        audio_s=round(audio["package"], 1),
        cpu_s_per_audio_s={name: round(cpu[name] / audio[name], 5) for name in ways},
        chunk_difference=difference,
    )


def markdown(report: SynthesisReport) -> str:
    base = report.cpu_s_per_audio_s["package"]
    rows = [
        [name, number(value, 5), number(value / base, 2)]
        for name, value in report.cpu_s_per_audio_s.items()
    ]
    shown = table(["spoken by", "CPU s per audio s", "times the package"], rows)
    return (
        f"{shown}\n\n{report.audio_s:g} s of audio. Chunks differ from the whole by "
        f"{report.chunk_difference:.1e} at most.\n"
    )


COMMAND = Command(
    run=reporting(lambda args: run(settings_of(Choice, args)), markdown),
    description="Speak the texts of a manifest in one process: by the package hibari-tts and by "
    "Conch's components, whole and in chunks. Report CPU time, and the difference of chunks to the "
    "whole.",
    epilog="""
examples:
  python -m lab synthesis --manifest speech/manifest.tsv --split dev --limit 40
""",
    flags="--limit N=40  texts, spread evenly over the manifest",
    takes_manifest=True,
)
