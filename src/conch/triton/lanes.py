"""The threads of an entry point: an urgent call never waits for a thread behind another one."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor


class Lanes:
    """Threads for calls of components, and for reading audio."""

    def __init__(self, max_calls: int, max_passes: int) -> None:
        """Take at least 4 `max_calls`. A pass makes one at once, with rescoring up to three."""
        live, ends, post = max_calls // 4, max(1, max_calls // 16), max_calls // 8
        passes = min(2 * max_passes, live)
        self.live = _lane("live", live)
        """Calls for chunks of live streams."""
        self.passes = _lane("pass", passes)
        """Calls that belong to no request: passes over live utterances."""
        self.ends = _lane("end", ends)
        """Calls that end a stream of a component."""
        self.recordings = _lane("call", max_calls - live - passes - ends - post)
        self.post = _lane("post", post) if post else self.recordings
        """Calls of models that are not Conch's own: one that hangs keeps its thread."""
        self.audio = _lane("audio", (os.cpu_count() or 1) + 4)
        """Reads audio files; it calls no component."""

    def close(self, timeout_s: float) -> bool:
        """Drop what waits, wait for what runs, and stop all threads; return whether they stopped.

        Calls may never end, so the wait has a limit. Those of models that are not Conch's own are
        not waited for.
        """
        lanes = (self.live, self.passes, self.ends, self.recordings, self.audio)
        for lane in (self.post, *lanes):
            lane.shutdown(wait=False, cancel_futures=True)

        def wait() -> None:
            for lane in lanes:
                lane.shutdown()

        waiting = threading.Thread(target=wait, name="lanes-end", daemon=True)
        waiting.start()
        waiting.join(timeout_s)
        return not waiting.is_alive()


def _lane(name: str, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"bls-{name}")
