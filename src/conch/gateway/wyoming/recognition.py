"""`transcribe`: the audio of a command in, its text out while somebody still speaks."""

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop

from conch.gateway.doors import WYOMING_LISTEN
from conch.gateway.held import charged_updates, held, live_session_of
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.models import options_of
from conch.gateway.option_fields import phrase
from conch.gateway.state import Caller, Gateway
from conch.gateway.wyoming.events import Events
from conch.wire.errors import OptionError
from conch.wire.languages import code_of
from conch.wire.limits import MAX_HOTWORD_TEXT
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment

ROUTE = WYOMING_LISTEN.address


def parse_options(
    settings: Transcribe, aliases: Mapping[str, str], languages: Collection[str]
) -> RecognitionOptions:
    """Return the options of a `transcribe`; raise an ApiError or OptionError for a wrong value."""
    options = dict(options_of(settings.name or "", aliases))
    if settings.language:
        language = options["language"] = code_of(settings.language)
        if "model" not in options and language not in languages:
            takes = f"{', '.join(languages)} here"
            raise OptionError.of("language", takes, settings.language)
    names = _hotwords(settings.transcript_names or ())
    # They go before terms.
    wanted = [*(f"{name}:12" for name in names), *_hotwords(settings.transcript_terms or ())]
    while len(",".join(wanted)) > MAX_HOTWORD_TEXT:
        wanted.pop()
    if wanted:
        options["names"] = ",".join(wanted)
    return RecognitionOptions.parse(options, live=True)


def _hotwords(sent: Sequence[object]) -> list[str]:
    return [*filter(None, (phrase(str(item)) for item in sent))]


async def hear(
    gateway: Gateway,
    caller: Caller,
    events: Events,
    options: RecognitionOptions,
    sample_rate: int,
    request_id: str,
    read: Callable[[LiveSession], Coroutine[Any, Any, bool]],
) -> None:
    """Recognise a command: send its text while `read` feeds its audio.

    Raise an ApiError if nothing is free, a ConchError if no server is ready, or as `held` does.
    """
    with gateway.session_of(caller, ROUTE):
        async with gateway.servers.reserved() as client:
            live = live_session_of(gateway, client, options, sample_rate, request_id)
            async with live:
                sending = _send_texts(events, charged_updates(live, gateway, caller, ROUTE))
                holding = held(gateway, sending, read(live), live.close)
                await gateway.unless_broken_off(holding)


async def send_text(events: Events, text: str = "", language: str | None = None) -> None:
    await events.send(Transcript(text, language=language))
    await events.send(TranscriptStop())


async def _send_texts(events: Events, updates: AsyncIterator[LiveUpdate]) -> None:
    """Send the utterances of a command in their order, and then its whole text."""
    await events.send(TranscriptStart())
    texts, language, num_sent = list[str](), None, 0
    final = dict[int, Segment]()
    async for update in updates:
        final |= {item.segment.index: item.segment for item in update.segments if item.is_final}
        # A second pass may end before that of the utterance before.
        while (segment := final.pop(num_sent, None)) is not None:
            num_sent += 1
            if text := segment.text:
                await events.send(TranscriptChunk(f" {text}" if texts else text))
                texts.append(text)
                language = segment.language or language
    await send_text(events, " ".join(texts), language)
