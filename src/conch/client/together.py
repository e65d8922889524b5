"""Coroutines that run at the same time."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

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
