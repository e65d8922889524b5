"""Lines of the access log of live streams, by how they end."""

import asyncio
import logging

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_streams import Client, audio, serving, streaming

from conch.bls.service import code_of
from conch.wire.access import MAX_ERROR, fields_of
from conch.wire.errors import AudioError, ComponentError, OptionError, SessionError


def lines(caplog: pytest.LogCaptureFixture) -> list[dict]:
    return [dict(fields) for record in caplog.records if (fields := fields_of(record))]


@pytest.fixture(autouse=True)
def shown(caplog):
    caplog.set_level(logging.INFO, "conch.access")


async def test_a_stream_that_ends_tells_all_its_chunks_and_calls(caplog):
    async with streaming() as (client, _):
        for chunk in ("1..", "2.."):
            await client.send(audio(chunk))
        assert not lines(caplog)
        await client.send(audio("3"), ends=True)
    (line,) = lines(caplog)
    assert (line["outcome"], line["mode"], line["chunks"]) == ("ok", "streaming", 3)
    assert line["audio_s"] == round(len(audio("1..2..3")) / 16_000, 3)
    assert line["calls"] >= 3
    assert "rows" not in line


@pytest.mark.parametrize("how", ["restart", "unloaded", "expired"])
async def test_other_ends_are_told_by_name(caplog, how):
    limits = {"stream_ttl_s": 0.2} if how == "expired" else {}
    async with serving(**limits) as (recognizer, components):
        client = Client(recognizer, components)
        await client.send(audio("1"))
        if how == "restart":
            await Client(recognizer, components).send(audio("1"), ends=True)
        elif how == "expired":
            while len(recognizer.open_streams):
                await asyncio.sleep(0.01)
        else:
            await recognizer.open_streams.close(1)
    assert lines(caplog)[0]["outcome"] == how


async def test_a_failing_component_is_told_once_and_a_chunk_of_no_stream_too(caplog):
    class Broken(PlainComponents):
        async def call(self, call):
            raise ComponentError("x" * 2 * MAX_ERROR)

    async with streaming(Broken()) as (client, _):
        with pytest.raises(ComponentError):
            await client.send(audio("1"))
        with pytest.raises(SessionError):
            await client.send(audio("1"))
    failed, unknown = lines(caplog)
    assert failed["outcome"] == "COMPONENT_FAILED"
    assert failed["error"] == "x" * MAX_ERROR
    assert (unknown["outcome"], unknown["mode"]) == ("NO_SESSION", "none")


async def test_a_refused_chunk_has_no_line_while_its_stream_goes_on(caplog):
    async with streaming() as (client, _):
        await client.send(audio("1"))
        with pytest.raises(AudioError):
            await client.send(audio("1") * np.nan)
        await client.send(audio("1"), ends=True)
    (line,) = lines(caplog)
    assert (line["outcome"], line["chunks"]) == ("ok", 3)


async def test_a_start_that_is_refused_has_a_line(caplog):
    async with streaming(nbest=0) as (client, _):
        with pytest.raises(OptionError):
            await client.send(audio("1"))
    (line,) = lines(caplog)
    assert line["outcome"] == "INVALID_OPTION"
    assert "nbest" in line["error"]


def test_the_code_is_that_of_the_answer():
    assert code_of(asyncio.CancelledError()) == "OVERLOADED"
    assert code_of(GeneratorExit()) == "CANCELLED"
    assert code_of(KeyError("secret")) == "INTERNAL"
