"""Answers to single requests over HTTP."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
from yarl import URL


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any
    """What JSON holds, or the text."""


async def answer_to(method: str, url: str | URL, **sent: Any) -> Answer:
    async with aiohttp.ClientSession() as session, session.request(method, url, **sent) as answer:
        text = await answer.text()
        is_json = answer.content_type == "application/json"
        return Answer(answer.status, answer.headers, json.loads(text) if is_json else text)


def asked(method: str, url: str | URL, **sent: Any) -> Answer:
    """Ask outside any event loop."""
    return asyncio.run(answer_to(method, url, **sent))
