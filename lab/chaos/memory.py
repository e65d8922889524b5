"""A server whose shared memory is small: tensors that do not fit are refused, others are served."""

import asyncio
from pathlib import Path

from conch.wire.errors import ConchError
from lab.chaos.answers import holds, outcome
from lab.chaos.doors import target_at
from lab.chaos.doors.triton_grpc import message, unary
from lab.chaos.fuzz import Fault, Sent
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
                    is_full = "shared memory" in answer.text and answer.status != "no answer"
                    found = outcome(answer)
                    is_held = holds(answer) or (is_full and not found.startswith("tells"))
                    sent.outcomes[
                        "refused" if is_full and is_held else found if is_held else "faults"
                    ] += 1
                    if not is_held:
                        sent.faults.append(
                            Fault(sent.phase, number, found, f"{seconds} s of silence")
                        )
                asked = await honest.ask(RECORDING)
                is_right = asked.outcome == "right"
                sent.outcomes["answered" if is_right else "faults"] += 1
                if not is_right:
                    sent.faults.append(Fault(sent.phase, number, asked.outcome, RECORDING))
    except ConchError as error:
        sent.outcomes["faults"] += 1
        sent.faults.append(Fault(sent.phase, 0, str(error), "the start"))
    finally:
        if serve.is_running:
            await serve.stop()
    return sent
