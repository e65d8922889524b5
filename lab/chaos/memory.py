"""A server whose shared memory is small: tensors that do not fit are refused, others are served."""

import asyncio
from pathlib import Path

from conch.wire.errors import ConchError
from lab.chaos.answers import Answer
from lab.chaos.doors import target_at
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.fuzz import Sent
from lab.chaos.honest import RECORDING, Honest
from lab.chaos.served import Serve
from lab.chaos.speech import RATE

MEGABYTES = 64
"""As much as a container has by default."""
SECONDS = (1, 10, 100, 400, 900, 1_800)
"""Of silence; as FP32 at 16 kHz, the last ones are larger than all of the shared memory."""
AT_ONCE = 4


async def small_memory(folder: Path) -> Sent:
    """Start a server with a `/dev/shm` of `MEGABYTES`, and send it more than fits.

    Returns:
        Answers; a full memory is said by an error, and what fits is still recognised.
    """
    sent = Sent(f"/dev/shm of {MEGABYTES} MB")
    serve = Serve(folder, ("attention",), MEGABYTES)
    try:
        await serve.start()
        async with Honest(serve.addresses) as honest, target_at(serve.addresses) as target:
            await honest.learn((RECORDING,))
            for number, seconds in enumerate(SECONDS):
                samples = seconds * RATE
                tensors = {"WAV": ("FP32", [1, samples], bytes(4 * samples))}
                request = message("speech", tensors, {}).SerializeToString()
                answers = await asyncio.gather(*(unary(target, request) for _ in range(AT_ONCE)))
                for answer in answers:
                    sent.count_answer(number, _said(answer), f"{seconds} s of silence")
                asked = await honest.ask(RECORDING)
                status = "OK" if asked.outcome == "right" else "wrong"
                sent.count_answer(number, Answer(status, asked.outcome), RECORDING)
    except ConchError as error:
        sent.count_answer(0, Answer("start", str(error)), "the start")
    finally:
        if serve.is_running:
            await serve.stop()
    return sent


def _said(answer: Answer) -> Answer:
    """Return an answer that says that the memory is full as a refusal."""
    is_full = answer.status == "INTERNAL" and "shared memory" in answer.text
    return Answer("RESOURCE_EXHAUSTED", answer.text) if is_full else answer
