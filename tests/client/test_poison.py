"""The rule for requests that end servers, on a clock of its own."""

import pytest

from conch.client import tensors
from conch.client.poison import REMEMBERED_S, Losses, blames
from conch.wire.errors import ConchError, PoisonError, ServerLostError, UnreachableError

LOST = ServerLostError("lost the connection to grpc://a:1: Socket closed")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


def lose(losses: Losses, name: str = "file", error: ConchError = LOST) -> None:
    with losses.attempt(name):
        raise error


@pytest.mark.parametrize(
    ("error", "is_blamed"),
    [
        (LOST, True),
        (UnreachableError("cannot reach a server"), False),
        (tensors.unreachable("grpc://a:1", "Socket closed"), True),
        (tensors.unreachable("grpc://a:1", "Connection reset by peer"), True),
        (tensors.unreachable("grpc://a:1", "failed to connect: connection closed"), False),
        # It came when the process was dead already.
        (tensors.error("500", "Stub process 'speech_0_0' is not healthy.", "grpc://a:1"), False),
        (tensors.error("UNAVAILABLE", "Server is stopping", "grpc://a:1"), False),
        (tensors.error("502", "bad gateway", "http://a"), False),
        (tensors.no_answer(5, "grpc://a:1"), False),
    ],
)
def test_what_speaks_against_a_request(error: ConchError, is_blamed: bool) -> None:
    assert blames(error) == is_blamed


def test_the_second_loss_refuses_for_an_hour() -> None:
    clock = Clock()
    losses = Losses(clock)
    with pytest.raises(ServerLostError):
        lose(losses)
    assert losses.is_suspect("file")
    assert not losses.is_suspect("other")
    losses.check("file")
    with pytest.raises(PoisonError, match="the last time: lost the connection"):
        lose(losses)
    with pytest.raises(PoisonError):
        losses.check("file")
    with pytest.raises(PoisonError), losses.attempt("file"):
        pytest.fail("it was sent again")
    losses.check("other")
    clock.now_s += REMEMBERED_S
    losses.check("file")
    assert not losses.is_suspect("file")


def test_an_answer_clears_a_file() -> None:
    losses = Losses(Clock())
    for _ in range(3):
        with pytest.raises(ServerLostError):
            lose(losses)
        with losses.attempt("file"):
            pass
        assert not losses.is_suspect("file")


def test_other_errors_count_for_nothing() -> None:
    losses = Losses(Clock())
    for _ in range(3):
        with pytest.raises(UnreachableError):
            lose(losses, error=UnreachableError("away"))
    assert not losses.is_suspect("file")


def test_files_of_one_content_that_are_lost_together_count_once() -> None:
    losses = Losses(Clock())
    first, second, third = (losses.attempt("file") for _ in range(3))
    for one in (first, second, third):
        one.__enter__()
    for one in (first, second):
        assert not one.__exit__(ServerLostError, LOST, None)  # it goes on
    # One that was answered had begun before, on another server.
    third.__exit__(None, None, None)
    assert losses.is_suspect("file")
    with pytest.raises(PoisonError):
        lose(losses)


def test_a_loss_inside_an_answer_counts_though_the_answer_has_its_end() -> None:
    losses = Losses(Clock())
    with losses.attempt("file"), pytest.raises(ServerLostError):
        lose(losses)
    assert losses.is_suspect("file")


def test_so_many_losses_are_remembered_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch.client.poison.MAX_NAMES", 10)
    clock = Clock()
    losses = Losses(clock)
    for number in range(11):
        with pytest.raises(ServerLostError):
            lose(losses, f"file {number}")
    assert not losses.is_suspect("file 0")
    assert losses.is_suspect("file 1") and losses.is_suspect("file 10")
    # One that is lost once more is the newest.
    clock.now_s += 1
    with pytest.raises(PoisonError):
        lose(losses, "file 1")
    clock.now_s += REMEMBERED_S - 0.5
    assert losses.is_suspect("file 1") and not losses.is_suspect("file 10")
