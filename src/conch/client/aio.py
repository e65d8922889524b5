"""What asyncio lacks in Python 3.10: `timeout`, and a group of coroutines that fails as one.

async-timeout is the package that `asyncio.timeout` was made from. Both end with
`asyncio.TimeoutError`, which is the built-in one from Python 3.11 on.
"""

import asyncio
import sys
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

__all__ = ["all_of", "timeout"]

Item = TypeVar("Item")


async def all_of(coroutines: Iterable[Coroutine[Any, Any, Item]]) -> list[Item]:
    """Return what coroutines return, in order; the first error cancels the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
