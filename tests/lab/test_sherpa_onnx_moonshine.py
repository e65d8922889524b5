"""Moonshine by sherpa-onnx, the baseline of `python -m lab offline`."""

from pathlib import Path

import pytest
from recordings import wer

from lab.baselines.one_process import Job
from lab.baselines.sherpa_onnx_moonshine import FORMATS, measure, options_of

RECORDING = Path(__file__).parents[1] / "data" / "kokoro_0_00788.ogg"


@pytest.mark.parametrize("name", FORMATS)
def test_it_hears_what_is_said(name: str) -> None:
    pytest.importorskip("sherpa_onnx")
    answers: list[None] = []
    job = Job(paths=(str(RECORDING),), options=options_of({}, "en", name))
    run = measure(job, lambda: answers.append(None))
    (text,) = run.texts
    assert wer("But nobody, nobody here, nobody in America believes we're safe enough.", text) == 0
    assert text == text.strip()
    assert len(answers) == len(run.latencies_s) == 1
    assert 1 < run.audio_s < 10
    assert run.cpu_s > 0
    assert run.memory_mb > 50
