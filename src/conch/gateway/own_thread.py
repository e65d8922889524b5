"""Work in a thread of its own, which ends when nobody waits for it any more."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def in_own_thread(work: Callable[[], Result]) -> Result:
    """Return what work returns; a cancellation ends it at its next step in Python.

    A thread of asyncio's own would go on, and a gateway that stops would wait for it.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        ident, ending = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ending)
        raise
