"""What strangers do at a door, each with the answers that are right."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import numpy as np

from conch.gateway.doors import (
    DEEPGRAM_FILE,
    DEEPGRAM_LISTEN,
    DEEPGRAM_TURNS,
    SESSIONS,
    WYOMING_LISTEN,
    WYOMING_SPEAK,
    Door,
)
from conch.scoring.error_rates import word_errors
from lab.chaos.answers import LOST, Answer, outcome
from lab.chaos.speech import RATE, wav_file
from lab.chaos.visits.clients import client_of
from lab.chaos.visits.road import Bend, road
from lab.chaos.visits.sent import Sent, has_two_passes, honest, live

_CUT = (LOST, "UNAVAILABLE", "1006")
"""Statuses of a connection that has ended without a word."""
REFUSED, ANSWERED, BUSY, GONE = "refused", "answered", "busy", "gone"
HUGE = 10**400
LONG = 20
"""Times a text of which the gateway holds no more than a part."""
OPTIONS: Mapping[str, str] = {
    SESSIONS.name: "include",
    DEEPGRAM_FILE.name: "utt_split",
    DEEPGRAM_LISTEN.name: "utterance_end_ms",
    DEEPGRAM_TURNS.name: "eot_timeout_ms",
    WYOMING_LISTEN.name: "rate",
    WYOMING_SPEAK.name: "voice",
    "file": "nbest",
    "recordings": "minutes",
    "live audio": "nbest",
    "text": "sample_rate",
    "live text": "sample_rate",
    "transcript": "name",
    "settings": "expires_after",
}
"""A field that a door has, by its name or what it takes: the place of a value of a wrong type."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What an honest visit to a door was given, and the bytes that it took."""

    door: Door
    answer: Answer
    counts: Mapping[str, int]

    def is_given_again(self, answer: Answer) -> bool:
        """Return whether a later visit was given the same.

        Without its second pass, a word in four may be another.
        """
        if answer == self.answer or not has_two_passes(self.door):
            return answer == self.answer
        wer = word_errors(self.answer.said, answer.said).wer
        is_near = wer is not None and wer <= 0.25
        return is_near and replace(answer, said=self.answer.said) == self.answer


@dataclass(frozen=True, slots=True)
class Behaviour:
    name: str
    right: Collection[str]
    """What may come of it: outcomes of `lab.chaos.answers`, or GONE if the client sees none."""
    changed: Callable[[Door, Sent], Sent] = lambda door, sent: sent
    """From what an honest client sends to what this one does."""
    bend: Bend | None = None
    at_once: int = 1
    """Visits at the same time, with the same id if there are several."""

    async def visit(self, address: str, door: Door, learned: Learned) -> list[Answer]:
        sent = self.changed(door, honest(door))
        visits = [self._one(address, door, sent, learned) for _ in range(self.at_once)]
        return list(await asyncio.gather(*visits))

    async def _one(self, address: str, door: Door, sent: Sent, learned: Learned) -> Answer:
        if self.bend is None:
            return await visited(address, door, sent)
        after = round(self.bend.share * learned.counts[self.bend.way])
        async with road(address, self.bend, after) as way:
            answer = await visited(way.address, door, sent)
        # What has bent the road tells the client, not the gateway.
        return Answer(GONE) if way.is_bent and answer.status in _CUT else answer

    def is_right(self, answer: Answer, learned: Learned) -> bool:
        result = GONE if answer.status == GONE else outcome(answer)
        if result == REFUSED and not answer.text.strip():
            return False
        if self.at_once > 1:
            return learned.is_given_again(answer)
        return result in self.right


async def visited(address: str, door: Door, sent: Sent) -> Answer:
    """Return the answer to a visit, LOST if its connection breaks."""
    try:
        return await client_of(door)(address, door, sent)
    except (OSError, aiohttp.ClientError) as error:
        return Answer(LOST, repr(error))


async def learn(address: str, door: Door) -> Learned:
    """Visit a door that nobody else visits."""
    async with road(address) as way:
        answer = await visited(way.address, door, honest(door))
    return Learned(door, answer, way.counts)


def _empty(door: Door, sent: Sent) -> Sent:
    return replace(sent, parts=(b"",) if door.takes in ("file", "recordings") else ())


def _silence(door: Door, sent: Sent) -> Sent:
    silence = np.zeros(RATE, np.float32)
    quiet: Mapping[str, tuple[Any, ...]] = {
        "file": (wav_file(silence),),
        "recordings": (wav_file(silence),),
        "live audio": live(silence),
        "text": (" \n ",),
        "live text": (" ", "\n "),
        "transcript": ({"segments": []},),
        "settings": (None,),
    }
    return replace(sent, parts=quiet[door.takes])


def _half(door: Door, sent: Sent) -> Sent:
    """Cut a sample, or a character that needs two halves."""
    *most, last = sent.parts
    if isinstance(last, bytes):
        return replace(sent, parts=(*most, last[:-1]))
    return replace(sent, parts=("\ud83d",))


def _option(value: Any) -> Callable[[Door, Sent], Sent]:
    def changed(door: Door, sent: Sent) -> Sent:
        return replace(
            sent, options={**sent.options, OPTIONS.get(door.name) or OPTIONS[door.takes]: value}
        )

    return changed


def _parts(*parts: Any) -> Callable[[Door, Sent], Sent]:
    return lambda door, sent: replace(sent, parts=parts)


def _known_speakers(door: Door, sent: Sent) -> Sent:
    odd = '[{"name": "a", "audio": "data:audio/wav;base64,%%%="}]'
    return replace(sent, options={**sent.options, "known_speakers": odd})


def _endless(door: Door, sent: Sent) -> Sent:
    return replace(sent, ends=False)


def _long(door: Door, sent: Sent) -> Sent:
    return replace(sent, parts=LONG * sent.parts) if "text" in door.takes else sent


QUICK = (
    Behaviour("sends nothing", (REFUSED, ANSWERED), _empty),
    Behaviour("sends silence", (REFUSED, ANSWERED), _silence),
    Behaviour("sends half a sample", (REFUSED, ANSWERED), _half),
    Behaviour("sends a wrong type", (REFUSED,), _parts(5)),
    Behaviour("sends a list", (REFUSED,), _parts([[{}]])),
    Behaviour("sends null", (REFUSED, ANSWERED), _parts(None)),
    Behaviour("sends an option of a wrong type", (REFUSED,), _option([{"a": None}])),
    Behaviour("sends an integer of 400 digits", (REFUSED,), _option(HUGE)),
    Behaviour("sends an integer of 400 digits as its content", (REFUSED,), _parts(HUGE)),
    Behaviour("sends odd base64", (REFUSED, ANSWERED), _parts("%%%=")),
    Behaviour("sends a voice of odd base64", (REFUSED, ANSWERED), _known_speakers),
    Behaviour(
        "sends one id twice at once",
        (ANSWERED,),
        lambda door, sent: replace(sent, request_id="again"),
        at_once=2,
    ),
    Behaviour("leaves in the middle", (GONE,), bend=Bend("sent", 0.5, "close")),
    Behaviour("breaks off in the middle", (GONE,), bend=Bend("sent", 0.5, "reset")),
    Behaviour("breaks off before the end", (GONE, ANSWERED), bend=Bend("sent", 0.98, "reset")),
    Behaviour("breaks off while it hears", (GONE, ANSWERED), bend=Bend("heard", 0.6, "reset")),
)
"""What is over at once."""

SLOW = (
    Behaviour("says no end", (REFUSED, ANSWERED, BUSY), _endless),
    Behaviour("stops in the middle", (REFUSED, BUSY, GONE), bend=Bend("sent", 0.6, "block")),
    Behaviour("trickles", (REFUSED, ANSWERED, BUSY, GONE), bend=Bend("sent", 0.6, "trickle")),
)
"""What lasts until the gateway ends it."""
STAYING = (
    Behaviour("never reads", (), _long, Bend("heard", 0.6, "block")),
    Behaviour("never writes", (), bend=Bend("sent", 0.0, "block")),
)
"""What lasts for ever for the client, and not for the gateway."""
