"""A long text goes in parts, each when the one before is taken, and their answers are one."""

import asyncio
from contextlib import aclosing

import numpy as np
import pytest

from conch.client.speech import Speech, speech_requests, spoken_parts, whole_of
from conch.wire.errors import OptionError, ServerError, TextError
from conch.wire.result import Stage
from conch.wire.synthesis import Spoken, SpokenSentence

TEXT = "This is the first. " * 200


def requests(text: str, **options):
    return speech_requests(text, None, "synthesis_stream", "id", options, default_timeout_s=9.0)


class Server:
    """Speaks every part in two pieces of a second; a part in capitals has no sound."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def speak(self, request):
        text = request.inputs["TEXT"].item().decode()
        self.asked.append(text)
        if text.isupper():
            raise TextError("no word")
        sentence = SpokenSentence(text, "", 0.0, 2.0)
        second = np.ones(10, np.float32)
        yield Speech(second, b"", Spoken(1.0, 10, "hibari", (sentence,)))
        yield Speech(second, b"", Spoken(2.0, 10, "hibari"))
        stages = {"vocoder": Stage(2, 5.0), "total": Stage(2, 6.0)}
        yield Speech(second[:0], b"", Spoken(2.0, 10, "hibari", (), ("vocoder",), stages))


def spoken(text: str, server: Server, **options) -> list[Speech]:
    async def main() -> list[Speech]:
        return [piece async for piece in spoken_parts(server.speak, requests(text, **options))]

    return asyncio.run(main())


def test_the_answers_to_parts_are_one() -> None:
    server = Server()
    pieces = spoken(TEXT, server)
    assert "".join(server.asked).split() == TEXT.split() and len(server.asked) > 2
    whole = whole_of(pieces)
    number = len(server.asked)
    assert len(whole.waveform) == 20 * number and whole.spoken.duration == 2.0 * number
    assert [item.start for item in whole.spoken.sentences] == [2.0 * i for i in range(number)]
    assert whole.spoken.stages["vocoder"] == Stage(2 * number, 5.0 * number)
    assert [bool(piece.spoken.stages) for piece in pieces] == [False] * 2 * number + [True]


def test_a_reader_that_stops_asks_for_no_further_part() -> None:
    server = Server()

    async def main() -> None:
        async with aclosing(spoken_parts(server.speak, requests(TEXT))) as pieces:
            await anext(pieces)
            assert len(server.asked) == 1

    asyncio.run(main())
    assert len(server.asked) == 1


def test_a_file_is_one_request() -> None:
    (request,) = requests(TEXT, format="mp3", speed=2)
    assert request.parameters == {"format": "mp3", "speed": 2.0}
    assert request.outputs == ("AUDIO", "RESULT")
    assert len(list(requests(TEXT, format="pcm_s16"))) > 2


def test_a_part_without_sound_is_passed_over_unless_all_are() -> None:
    server = Server()
    pieces = spoken(f"{TEXT}\n{'SILENT. ' * 300}\n{TEXT}", server)
    assert any(text.isupper() for text in server.asked)
    assert pieces[-1].spoken.duration > 2.0
    with pytest.raises(TextError, match="no word"):
        spoken("SILENT.", Server())


def test_wrong_options_and_answers_are_errors() -> None:
    with pytest.raises(OptionError, match="option 'speed'"):
        list(requests("Hi.", speed=9))

    async def nothing(request):
        return
        yield

    async def main() -> None:
        async for _ in spoken_parts(nothing, requests("Hi.")):
            pass

    with pytest.raises(ServerError, match="has not ended"):
        asyncio.run(main())


def test_half_a_surrogate_pair_is_an_error_of_the_text() -> None:
    with pytest.raises(TextError, match="what UTF-8 can write"):
        spoken("Hello \ud800.", Server())
