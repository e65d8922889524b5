"""Which answers to hostile requests hold."""

import pytest

from lab.chaos.answers import LOST, NO_ANSWER, Answer, holds, outcome


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer("200"), "answered"),
        (Answer("1000", is_gateway=True), "answered"),
        (Answer("400", "INVALID_OPTION: unknown option 'x'"), "refused"),
        (Answer("INVALID_ARGUMENT", "INVALID_AUDIO: WAV is empty"), "refused"),
        (Answer("503", "OVERLOADED: 256 requests are in flight"), "busy"),
        (Answer("UNAVAILABLE", "DEADLINE_EXCEEDED: deadline_ms of 1 ran out"), "busy"),
        (Answer("503", "the server is full", is_gateway=True), "busy"),
        (Answer("1013", is_gateway=True), "busy"),
        (Answer("500", "Unable to parse 'inputs': attempt to access"), "unreadable"),
    ],
)
def test_an_answer_that_holds_is_of_a_kind(answer, found):
    assert outcome(answer) == found
    assert holds(answer)


@pytest.mark.parametrize(
    "answer",
    [
        Answer("500", "INTERNAL: internal error; the server's log has it as 0f0f0f0f"),
        Answer("INTERNAL", "COMPONENT_FAILED: the process died"),
        Answer("503", "Triton is not ready"),
        Answer("1011", is_gateway=True),
        Answer(NO_ANSWER, "within 60 s"),
        Answer(LOST, "ServerDisconnectedError()"),
    ],
)
def test_a_fault_is_told_with_its_status(answer):
    assert not holds(answer)
    assert outcome(answer).startswith(answer.status)


def test_a_refusal_tells_neither_shared_memory_nor_all_that_was_sent():
    assert "inside" in outcome(Answer("400", "cannot grow conch-0123456789ab-shm_region"))
    assert "inside" in outcome(Answer("400", 'Traceback (most recent call last)\n  File "/x.py"'))
    assert "5000 characters" in outcome(Answer("400", "a" * 5_000))
