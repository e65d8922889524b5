"""A request's options are read once by the gateway and once by the server, whatever is asked."""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_live import PlainLiveClient, spoken
from plain_recognizer import recognized
from plain_streams import audio, streaming

from conch.gateway import file_request
from conch.gateway.listen import query_of
from conch.gateway.live_session import LiveSession
from conch.gateway.servers import recognition_request
from conch.wire import known_speakers
from conch.wire.options import RecognitionOptions

VOICE = base64.b64encode(np.eye(1, 21, dtype="<f4").tobytes()).decode()
KNOWN = json.dumps([{"name": "Ann", "embedding": VOICE}])
LABELLED = {"speakers": "auto", "known_speakers": KNOWN}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often options were made of what was sent, and a voice of its text."""
    counts = Counter[str]()
    made, voice = RecognitionOptions._meant, known_speakers._speaker

    def counted(sent: Mapping[str, object], *, live: bool) -> RecognitionOptions:
        counts["options"] += 1
        return made(sent, live=live)

    def counted_voice(number: int, entry: object) -> known_speakers.KnownSpeaker:
        counts["voices"] += 1
        return voice(number, entry)

    monkeypatch.setattr(RecognitionOptions, "_meant", counted)
    monkeypatch.setattr(known_speakers, "_speaker", counted_voice)
    return counts


def taken(reads: Counter[str]) -> dict[str, int]:
    result = dict(reads)
    reads.clear()
    return result


@pytest.mark.parametrize(
    ("fields", "at_gateway", "on_server"),
    [
        ({}, {"options": 1}, {"options": 1}),
        ({"nbest": "3", "punctuate": "true"}, {"options": 1}, {"options": 1}),
        # Whether the decoder takes the prompt decides whether it is sent.
        ({"prompt": "A talk."}, {"options": 2}, {"options": 1}),
        # The embeddings that the server has worked out are read as well.
        (LABELLED, {"options": 1, "voices": 1}, {"options": 1, "voices": 2}),
    ],
    ids=lambda item: "-".join(item),
)
def test_of_a_file(
    fields: Mapping[str, str],
    at_gateway: Mapping[str, int],
    on_server: Mapping[str, int],
    reads: Counter[str],
) -> None:
    form = {name: (value,) for name, value in fields.items()}
    request = recognition_request(b"RIFF", file_request.parse(form, {}).options, "id")
    assert taken(reads) == at_gateway, "reads of the form until the request to the server"
    assert recognized(PlainComponents(), audio("..11.."), **request.parameters).text
    assert taken(reads) == on_server, "reads of the request until the answer"


def test_another_decoder_is_thought_of_where_the_first_is_missing(reads: Counter[str]) -> None:
    components = PlainComponents()
    components.missing.add("moonshine_decoder")
    assert "attention_decoder" in recognized(components, audio("..11..")).path
    assert taken(reads) == {"options": 2}, "one for each decoder that was tried"


@pytest.mark.virtual_time
async def test_of_a_live_session(reads: Counter[str]) -> None:
    client: Any = PlainLiveClient()
    query = query_of([*LABELLED.items()], {})
    assert taken(reads) == {"options": 1, "voices": 1}
    async with LiveSession(client, query.options, sample_rate=16_000, max_backlog_s=9) as live:
        await live.feed(spoken(1, 1.0))
        live.close()
        assert [update async for update in live.updates()]
    # The server here is a plain one, which reads all that it gets.
    assert client.options[0]["known_speakers"] == KNOWN
    assert taken(reads) == {"options": 1, "voices": 1}, "reads by the server of the one stream"


async def test_of_a_live_stream(reads: Counter[str]) -> None:
    async with streaming(mode="two_pass", **LABELLED) as (client, _):
        for letter in "..1..":
            await client.send(audio(letter))
        final = await client.send(audio("."), ends=True)
    assert final.text
    assert taken(reads) == {"options": 1, "voices": 2}, "reads of all chunks by the server"
