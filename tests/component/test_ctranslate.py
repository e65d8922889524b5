"""How a model on CTranslate2 is loaded, in a process of its own: niceness cannot be taken back."""

import os
import sys
from pathlib import Path

import pytest
from subprocesses import output_of

from conch.component.ctranslate import CTranslate2Config, load_ctranslate2
from conch.wire.errors import ConfigError

LOAD = """
import os
import threading
from pathlib import Path
from conch.component.ctranslate import CTranslate2Config, load_ctranslate2

def kind(folder, **settings):
    found = []
    thread = threading.Thread(target=lambda: found.append(os.nice(0)))
    thread.start()
    thread.join()
    return found[0]

usual = os.nice(0)  # of this test's process
os.nice({before})
config = CTranslate2Config(nice=min(usual + {nice}, 19))
of_threads = load_ctranslate2(kind, Path("model"), config, "int8", lambda model: None)
print(of_threads - usual, os.nice(0) - usual)
"""


@pytest.mark.parametrize(("before", "nice", "after"), [(0, 5, 5), (0, 0, 0), (5, 3, 5)])
def test_the_threads_of_a_model_are_as_nice_as_asked_for_and_never_less(before, nice, after):
    code = LOAD.format(before=before, nice=nice)
    most = 19 - os.nice(0)
    assert output_of(sys.executable, "-c", code).split() == [str(min(after, most))] * 2


@pytest.mark.parametrize("nice", [-1, 20])
def test_niceness_has_a_range(nice):
    config = CTranslate2Config(nice=nice)
    with pytest.raises(ConfigError, match=f"nice takes 0 to 19; is: {nice}"):
        load_ctranslate2(lambda *args, **settings: None, Path(), config, "int8", lambda model: None)


@pytest.mark.parametrize(("nice", "policy"), [(18, os.SCHED_OTHER), (19, os.SCHED_IDLE)])
def test_the_highest_niceness_takes_only_what_others_leave(nice, policy):
    code = f"""
import os
from conch.component.parameters import be_nice

os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
be_nice({nice})
print(os.sched_getscheduler(0))
"""
    assert output_of(sys.executable, "-c", code).split() == [str(policy)]
