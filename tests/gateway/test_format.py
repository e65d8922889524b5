"""POST /v1/format: transcripts as files, and what is wrong with a request."""

# ruff: noqa: RUF001

import asyncio
import io
import json
import random
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import Any, NoReturn

import pytest
import transcripts
from http_answers import Answer, asked
from lone_gateway import address_of, lone_gateway
from loop_gateway import until
from waiting import wait_until

from conch.gateway.errors import ApiError
from conch.gateway.format import MAX_BYTES, in_own_thread, read, transcript_of
from conch.gateway.state import MAX_WRITING
from conch.wire.formats import FORMATS
from conch.wire.result import Hypothesis, Segment, Transcript, Word

TEXT = (
    "The legend that they were invincible — above and beyond the processes of a democracy — has "
    "been shattered. Really? He said “no.” Then, a <b>very</b> long-winded-compound-word-that-is-"
    "longer-than-a-line & some more words without any end that just go on --> and on"
)


def words(text: str, start: float = 0.3) -> tuple[Word, ...]:
    """Return a text's words, one each 0.37 s, with a pause after every ninth."""
    made = []
    for index, word in enumerate(text.split()):
        begin = start + 0.37 * index + 0.8 * (index // 9)
        made.append(Word(word, round(begin, 3), round(begin + 0.375, 3), 0.9))
    return tuple(made)


transcript = partial(transcripts.transcript, duration=60.0)


def segment(text: str, *, start: float = 0.0, timed: bool = True, channel: int = 0) -> Segment:
    said = words(text, start) if timed else ()
    best = (Hypothesis(text, -1.0, -1.0),)
    return Segment(start, start + 30.25, best, said, channel=channel)


def drawn(rng: random.Random) -> Transcript:
    """Words of all lengths and times that are sometimes impossible, as alignments can be."""
    clock, segments = 0.0, []
    for _ in range(rng.randint(1, 5)):
        said = []
        for _ in range(rng.randint(0, 40)):
            text = rng.choice(
                ["x", "of", "the", "hello", "Mr.", "because", "w" * 21, "z" * 60, "好"]
            )
            text += rng.choice(["", "", "", ",", ".", "?”", "。"])
            length = rng.choice([0.0, 0.1, 0.2, 0.4, 0.7, 3.0, 12.0])
            said.append(Word(text, clock + rng.uniform(-0.2, 0.1), clock + length, 0.5))
            clock += length + rng.choice([0.0, 0.0, 0.0, 0.3, 0.8, 2.0])
        text = " ".join(word.text for word in said)
        begins = said[0].start if said else clock
        segments.append(
            Segment(
                begins, clock, (Hypothesis(text, -1, -1),), tuple(said), channel=rng.choice([1, 2])
            )
        )
    return transcript(*segments, channels=rng.choice([1, 2]))


TRANSCRIPTS = {
    "with word times": transcript(segment(TEXT), segment(TEXT, start=31.5)),
    "without word times": transcript(segment(TEXT, timed=False)),
    "two channels": transcript(
        segment(TEXT, channel=1), segment("Yes, I see.", start=4.2, channel=2), channels=2
    ),
    "silence": transcript(),
    "mixed scripts": transcript(
        segment(
            "我 用 Python 写 程 序 ， 你 好 。 今 日 は いい 天 気 です 。 안녕하세요. 반갑습니다"
        ),
        segment("สวัส ดี ครับ Fine, thanks! ｶﾅ “好” 😀 é", start=11.0),
        segment("我用 Python 写程序，你好。สวัสดี the end, it is", start=20.0, timed=False),
        segment("彼は「明日」と言った。ラーメン（笑）人々 เก็บน้ำแล้วๆ --->", start=60.0, timed=False),
    ),
    **{f"drawn {seed}": drawn(random.Random(seed)) for seed in range(30)},
}


WRITTEN = ("text", "srt", "vtt", "ctm", "stm")


@pytest.mark.parametrize("kind", TRANSCRIPTS)
def test_a_file_is_what_conch_transcribe_writes(kind: str) -> None:
    said = TRANSCRIPTS[kind]
    for name in WRITTEN:
        body = {"transcript": json.loads(said.to_json()), "format": name, "name": "talk"}
        request = read(json.dumps(body).encode())
        assert FORMATS[name](transcript_of(request.transcript), request.name) == FORMATS[name](
            said, "talk"
        )


def body_with(**changes: Any) -> bytes:
    segment = {"start": 0, "end": 1, "text": "Hello."}
    return json.dumps({"transcript": {"segments": [segment]}, "format": "srt", **changes}).encode()


def test_the_text_is_that_of_the_segments_if_none_is_sent() -> None:
    segments = [
        {"start": at, "end": at + 1, "text": text} for at, text in enumerate(("你好。", "好。"))
    ]
    request = read(body_with(transcript={"segments": segments}, format="text"))
    assert FORMATS["text"](transcript_of(request.transcript), "") == "你好。好。\n"


def test_no_cue_ends_after_the_duration_that_is_sent() -> None:
    segments = [{"start": 0.2, "end": 0.6, "text": "Hello there."}]
    request = read(body_with(transcript={"segments": segments, "duration": 0.75}))
    assert "00:00:00,200 --> 00:00:00,750\n" in FORMATS["srt"](
        transcript_of(request.transcript), ""
    )


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        (body_with(format="docx"), "format"),
        (body_with(format="x" * 9_000), "format"),
        (body_with(max_chars=3), "max_chars"),
        (body_with(**{"x" * 9_000: 3}), f"{'x' * 79}…"),
        (body_with(name=3), "name"),
        (body_with(transcript={}), "transcript.segments"),
        (
            body_with(transcript={"segments": [{"start": 0, "end": "1"}]}),
            "transcript.segments[0].end",
        ),
        (
            body_with(transcript={"segments": [{"start": 0, "end": 1e300}]}),
            "transcript.segments[0].end",
        ),
        (body_with(transcript={"segments": [], "duration": -1}), "transcript.duration"),
        (b"", "body"),
        (b"[]", "body"),
        (b"{", "body"),
        (b"\xff", "body"),
        (b'{"transcript": {"segments": [], "x": ' + b"[" * 100_000, "body"),
    ],
)
def test_an_error_names_what_is_wrong(sent: bytes, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(sent)
    assert (caught.value.status, caught.value.code) == (400, "invalid_value")
    assert caught.value.param == param
    assert len(str(caught.value)) < 300
    if param == "format":
        assert "text, srt, vtt, ctm, stm" in str(caught.value)


def asked_for(url: str, body: bytes) -> Answer:
    return asked("POST", f"{url}/v1/format", data=io.BytesIO(body))


def test_a_gateway_answers_with_the_file(url: str) -> None:
    for name, kind in (("srt", "text/plain"), ("vtt", "text/vtt")):
        answer = asked_for(url, body_with(format=name))
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert answer.body.endswith("\nHello.\n\n")


def test_speakers_have_the_names_that_are_sent(url: str) -> None:
    said = {"segments": [{"start": 0, "end": 1, "text": "Hello.", "speaker": "A"}]}
    body = body_with(transcript=said, format="text", speaker_names={"A": "Ann"})
    assert asked_for(url, body).body == "Ann: Hello.\n"
    for names, message in (
        ({"B": "Ben"}, "the speaker B, whom this transcript lacks; its speakers: A; sent"),
        ({"A": "x\n\nInjected"}, "sent: 'x"),
        ({"A": ""}, "sent: ''"),
    ):
        answer = asked_for(url, body_with(transcript=said, speaker_names=names))
        error = answer.body["error"]
        assert (answer.status, error["param"]) == (400, "speaker_names")
        assert message in error["message"]


def test_a_body_that_is_too_large_is_refused(url: str) -> None:
    answer = asked_for(url, body_with(name="a" * MAX_BYTES))
    assert answer.status == 400
    assert f"at most {MAX_BYTES} bytes" in answer.body["error"]["message"]


def endless(body: bytes) -> NoReturn:
    """Stand for a transcript whose cues take for ever."""
    STARTED.append(threading.current_thread())
    while True:
        pass


STARTED: list[threading.Thread] = []


def has_begun(number: int) -> bool:
    return len(STARTED) >= number


def test_work_ends_when_its_client_leaves_and_when_the_gateway_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    STARTED.clear()
    monkeypatch.setattr("conch.gateway.format._written", endless)
    with lone_gateway(drain_s=0.1) as service:
        address = address_of(service)
        for number in range(MAX_WRITING):
            with socket.create_connection(address) as line:
                line.sendall(posted(body_with()))
                wait_until(partial(has_begun, number + 1))
            wait_until(lambda: not STARTED[-1].is_alive())
        with socket.create_connection(address) as line:
            line.sendall(posted(body_with()))
            wait_until(partial(has_begun, MAX_WRITING + 1))
            began = time.monotonic()
            service.close()
            assert line.recv(65_536).startswith(b"HTTP/1.1 503 ")
    wait_until(lambda: not STARTED[-1].is_alive())
    assert time.monotonic() - began < 30


def test_work_has_its_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    STARTED.clear()
    monkeypatch.setattr("conch.gateway.format._written", endless)
    monkeypatch.setattr("conch.gateway.format.WRITE_S", 0.2)
    answer = asked_for(url, body_with())
    assert answer.status == 400
    said = answer.body["error"]["message"]
    assert said == "transcript: it takes more than 0.2 s to write; send it in parts"
    wait_until(lambda: not STARTED[-1].is_alive())


def test_so_many_transcripts_wait_at_most(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch.gateway.state.MAX_TRANSCRIPTS", 2)
    port = int(url.rpartition(":")[2])
    full = "2 transcripts are written; try again later"
    with ExitStack() as stack:
        for _ in range(2):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            line.sendall(posted(body_with())[:-1])
        wait_until(lambda: full in str(asked_for(url, body_with()).body))


def posted(body: bytes) -> bytes:
    length = f"Content-Length: {len(body)}"
    return f"POST /v1/format HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n\r\n".encode() + body


def count_for_ever(counts: list[int], threads: list[threading.Thread]) -> None:
    threads.append(threading.current_thread())
    while True:
        counts[0] += 1


async def test_work_ends_with_the_one_who_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    counts, threads = [0], list[threading.Thread]()
    waiting = asyncio.create_task(in_own_thread(lambda: count_for_ever(counts, threads)))
    await until(lambda: counts[0] > 0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not threads[0].is_alive())
    assert capfd.readouterr().err == ""


async def test_its_result_and_its_error_are_those_of_the_work() -> None:
    assert await in_own_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 // 0)
