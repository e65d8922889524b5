from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.wire.errors import BenchError
from lab.baselines import faster_whisper
from lab.baselines.cache import BaselineCache
from lab.baselines.faster_whisper import BaselineRun, Job, Options


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{place}.wav" for place in range(3)]
    for place, path in enumerate(paths):
        soundfile.write(path, np.full(800, place / 10), 8_000)
    return [str(path) for path in paths]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the names of the files that the baseline was asked for, which it spells."""
    names: list[str] = []

    def measure(job: Job, on_answer: Callable[[], None]) -> BaselineRun:
        own = [Path(path).stem for path in job.paths]
        names.extend(own)
        for _ in own:
            on_answer()
        texts = tuple(f"text {name}" for name in own)
        return BaselineRun(texts, tuple(1.5 for _ in own), 1.5, 1.0, 1.0, 100.0)

    monkeypatch.setattr(faster_whisper, "measure", measure)
    yield names


def job(paths: list[str], beam_size: int = 5) -> Job:
    options = Options(model="model", compute_type="int8", cpu_threads=2, beam_size=beam_size)
    return Job(paths=tuple(paths), options=options)


def test_only_what_is_not_known_is_asked(
    paths: list[str], asked: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "cache.json"
    first = BaselineCache(file).recognize(job(paths[1:2]))
    assert (first.cached, asked) == (0, ["1"])
    answers: list[int] = []
    again = BaselineCache(file).recognize(job(paths), on_answer=lambda: answers.append(1))
    assert asked == ["1", "0", "2"]
    assert [item.text for item in again.results] == ["text 0", "text 1", "text 2"]
    assert {item.latency_s for item in again.results} == {1.5}
    assert (again.cached, len(answers)) == (1, 3)
    assert BaselineCache(file).recognize(job(paths)).cached == 3
    assert len(asked) == 3
    assert [path.name for path in tmp_path.iterdir() if "cache" in path.name] == ["cache.json"]


def test_samples_and_settings_are_the_key_not_the_name(
    paths: list[str], asked: list[str], tmp_path: Path
) -> None:
    cache = BaselineCache(tmp_path / "cache.json")
    cache.recognize(job(paths[:1]))
    copied = tmp_path / "copied.wav"
    copied.write_bytes(Path(paths[0]).read_bytes())
    assert cache.recognize(job([str(copied)])).cached == 1
    assert cache.recognize(job(paths[:1], beam_size=1)).cached == 0
    soundfile.write(paths[0], np.zeros(800), 16_000)
    assert cache.recognize(job(paths[:1])).cached == 0
    assert asked == ["0", "0", "0"]


def test_without_a_file_everything_is_measured(paths: list[str], asked: list[str]) -> None:
    cache = BaselineCache()
    assert [cache.recognize(job(paths)).cached for _ in range(2)] == [0, 0]
    assert len(asked) == 6


@pytest.mark.parametrize("content", ["", "[1]", '{"key": {"words": "no"}}', '{"key": 1}'])
def test_a_file_that_is_no_cache_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cache.json"
    file.write_text(content)
    with pytest.raises(BenchError, match=r"cache\.json is no baseline cache"):
        BaselineCache(file)
    assert file.read_text() == content
