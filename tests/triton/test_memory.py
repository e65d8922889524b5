"""What a model's process gives back, and when."""

import sys
import threading
import time
from pathlib import Path

from subprocesses import output_of

from conch.triton.memory import MANY_ENDED, IdleWatch

SUPPORT = Path(__file__).parents[1] / "support"


def test_it_runs_once_after_each_time_of_calls():
    ran = threading.Semaphore(0)
    watch = IdleWatch(ran.release, idle_s=0.05)
    assert not ran.acquire(timeout=0.2)
    for _ in range(2):
        for _ in range(5):
            watch.called()
        assert ran.acquire(timeout=30)
        assert not ran.acquire(timeout=0.3)


def test_calls_put_it_off():
    ran = threading.Event()
    watch = IdleWatch(ran.set, idle_s=1.0)
    tick = threading.Event()
    for _ in range(15):
        watch.called()
        tick.wait(0.1)
    assert not ran.is_set()
    assert ran.wait(30)


def test_many_streams_that_end_do_not_wait_for_a_time_without_calls():
    ran = threading.Semaphore(0)
    watch = IdleWatch(ran.release, idle_s=0.1)
    tick, until = threading.Event(), time.monotonic() + 30
    for _ in range(MANY_ENDED):
        watch.called(num_ended=1)
    while not ran.acquire(blocking=False):  # one live stream that goes on
        assert time.monotonic() < until
        watch.called()
        tick.wait(0.01)
    for _ in range(100):  # few have ended since
        watch.called(num_ended=0)
        tick.wait(0.01)
    assert not ran.acquire(blocking=False)


def test_a_component_does_not_load_the_orchestrator():
    code = (
        f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
        "import plain_triton; sys.modules['triton_python_backend_utils'] = plain_triton\n"
        "import conch.triton.models\n"
        "print([name for name in ('av', 'soxr', 'conch.recognition') if name in sys.modules])"
    )
    assert output_of(sys.executable, "-c", code).strip() == "[]"


def test_a_ctc_decoder_does_not_load_onnx_runtime():
    code = "import sys, conch.decoding.streaming_decoder; print('onnxruntime' in sys.modules)"
    assert output_of(sys.executable, "-c", code).strip() == "False"
