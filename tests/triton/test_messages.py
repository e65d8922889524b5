"""Answers leave in order, and beside the event loop."""

import logging
import threading
import time

from plain_triton import TRITONSERVER_RESPONSE_COMPLETE_FINAL, InferenceResponse, ResponseSender

from conch.triton.messages import SLOW_S, THREADS, Answers


class Slow(ResponseSender):
    """A sender for which Triton's pool has no thread until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_room = threading.Event()

    def send(self, *response, **flags) -> None:
        assert self.has_room.wait(20)
        super().send(*response, **flags)


def test_who_sends_does_not_wait_and_the_order_of_a_request_is_kept():
    answers, slow = Answers(), Slow()
    parts = [InferenceResponse() for _ in range(20)]
    send = answers.through(slow)
    for part in parts:
        send(part)
    send(flags=TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    assert slow.sent.empty()
    # Other requests do not wait for it.
    for _ in range(THREADS - 1):
        other = ResponseSender()
        answers.through(other)(InferenceResponse(), flags=TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        other.sent.get(timeout=20)
    slow.has_room.set()
    answers.close()
    assert [slow.sent.get(timeout=20) for _ in range(21)] == [*parts, None]
    assert slow.is_final


def test_a_pool_without_threads_is_told_once(caplog):
    class Late(ResponseSender):
        def send(self, *response, **flags) -> None:
            time.sleep(2 * SLOW_S)  # what the answer waits for Triton

    answers = Answers()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answers.through(Late())(InferenceResponse())
        answers.close()
    (told,) = [record.getMessage() for record in caplog.records]
    assert "thread-pool-size=N" in told


def test_an_answer_that_cannot_be_sent_is_logged(caplog):
    class Broken(ResponseSender):
        def send(self, *response, **flags) -> None:
            raise RuntimeError("no shared memory is left")

    answers = Answers()
    answers.through(Broken())(InferenceResponse())
    answers.close()
    assert "an answer could not be sent" in caplog.text
    assert "no shared memory is left" in caplog.text
