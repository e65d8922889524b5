"""A server whose shared memory is small: tensors that do not fit are refused, others are served."""

import asyncio
from pathlib import Path

import numpy as np

from conch.wire.errors import ConchError
from lab.chaos.answers import Answer
from lab.chaos.census import NAME
from lab.chaos.doors import Target, target_at
from lab.chaos.doors.target import transcribed
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.fuzz import Sent
from lab.chaos.honest import RECORDING, Honest
from lab.chaos.served import Serve
from lab.chaos.speech import RATE
from lab.waveforms import audio_file

MEGABYTES = 64
"""As much as a container has by default."""
SECONDS = (1, 10, 100, 400, 900, 1_800)
"""Of silence; as FP32 at 16 kHz, the last ones are larger than all of the shared memory."""
AT_ONCE = 4


async def small_memory(folder: Path) -> Sent:
    """Start a server with a `/dev/shm` of `MEGABYTES`, and send it more than fits."""
    sent = Sent(f"/dev/shm of {MEGABYTES} MB")
    serve = Serve(folder, ("attention",), MEGABYTES)
    try:
        await serve.start()
        async with Honest(serve.addresses) as honest, target_at(serve.addresses) as target:
            await honest.learn((RECORDING,))
            for number, seconds in enumerate(SECONDS):
                requests = [_by_grpc(target, seconds) for _ in range(AT_ONCE)]
                for answer in await asyncio.gather(*requests, _by_gateway(target, seconds)):
                    sent.count_answer(number, answer, f"{seconds} s of silence")
                reply = await honest.ask(RECORDING)
                status = "OK" if reply.outcome == "right" else "wrong"
                sent.count_answer(number, Answer(status, reply.outcome), RECORDING)
    except ConchError as error:
        sent.count_answer(0, Answer("start", str(error)), "the start")
    finally:
        if serve.is_running:
            await serve.stop()
    return sent


async def _by_grpc(target: Target, seconds: int) -> Answer:
    tensors = {"WAV": ("FP32", [1, seconds * RATE], bytes(4 * seconds * RATE))}
    answer = await unary(target, message("speech", tensors, {}).SerializeToString())
    if answer.status == "INTERNAL" and "shared memory" in answer.text:
        # Triton itself answers here, and names the segment; the API that takes the name is closed.
        return Answer("RESOURCE_EXHAUSTED", NAME.sub("…", answer.text))
    return answer


async def _by_gateway(target: Target, seconds: int) -> Answer:
    silence = np.zeros(seconds * RATE, np.float32)
    return await transcribed(target, audio_file(silence, RATE, subtype="FLOAT"))
