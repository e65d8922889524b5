"""What asyncio lacks: `timeout` in Python 3.10, and a group of coroutines that fails as one.

async-timeout is the package that `asyncio.timeout` was made from. Both end with
`asyncio.TimeoutError`, which is the built-in one from Python 3.11 on.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

__all__ = ["all_of", "timeout", "within"]

Item = TypeVar("Item")


@asynccontextmanager
async def within(seconds: float | None, late: Exception) -> AsyncIterator[None]:
    """Raise `late` if the block takes longer; None is no limit."""
    try:
        async with timeout(seconds):
            yield
    except asyncio.TimeoutError:
        raise late from None


async def all_of(coroutines: Iterable[Coroutine[Any, Any, Item]]) -> list[Item]:
    """Return what coroutines return, in order; the first error cancels the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
