"""Speaker labels of made conversations, as `conch bench speakers` measures those of recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import soundfile

from conch.bench import speakers
from conch.bench.load import progress
from conch.bench.speakers import SpeakersReport
from conch.wire.formats import to_rttm
from conch.wire.result import Transcript
from lab.command import lab_header
from lab.speakers.conversations import (
    CONDITIONS,
    Condition,
    Conversation,
    Source,
    conversation,
    read_sources,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersBenchmark:
    manifest: Path
    split: str = "dev"
    speakers: tuple[int, ...] = (2, 3, 4, 8)
    conditions: tuple[Condition, ...] = CONDITIONS
    conversations: int = 4
    """Of each number of speakers and condition."""
    seconds: float = 180.0
    seed: int = 7
    overlaps: float | None = None
    """As of `conversation`."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setups(self) -> list[tuple[Condition, int]]:
        return [(where, count) for where in self.conditions for count in self.speakers]

    def made(
        self, sources: Sequence[Source], condition: Condition, count: int
    ) -> list[Conversation]:
        return [
            conversation(
                *(sources, count, self.seconds, condition, [self.seed, count, index]),
                self.overlaps,
            )
            for index in range(self.conversations)
        ]


def run(benchmark: SpeakersBenchmark) -> SpeakersReport:
    with TemporaryDirectory(prefix="conch-conversations-") as folder:
        settings = speakers.SpeakersBenchmark(
            files=written(benchmark, Path(folder)),
            url=benchmark.url,
            options={"word_timestamps": True, **benchmark.options},
        )
        report = speakers.run(settings)
    header = lab_header("speakers", benchmark).with_triton(report.header.versions["triton"])
    return replace(report, header=header)


def written(benchmark: SpeakersBenchmark, folder: Path) -> list[Path]:
    """Write conversations, and their turns next to them; return the recordings."""
    sources, paths = read_sources(benchmark.manifest, benchmark.split), []
    with progress("setups", len(benchmark.setups)) as bar:
        for condition, count in benchmark.setups:
            for number, item in enumerate(benchmark.made(sources, condition, count), 1):
                path = folder / f"{condition}-{count}-{number}.wav"
                soundfile.write(path, item.waveform, item.sample_rate, subtype="FLOAT")
                said = Transcript((), (), item.duration_s, (), {}, turns=item.turns)
                path.with_suffix(".rttm").write_text(to_rttm(said, path.stem))
                paths.append(path)
            bar.update()
    return paths
