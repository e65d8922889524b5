"""Let every component of `speech` answer once, so that no first request is slow."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import conch
from conch.families import all_families
from conch.launcher.endpoints import Endpoints
from conch.launcher.logs import LOGGER
from conch.wire.entry_points import FITTING
from conch.wire.named_models import named_models
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

SPEECH = Path(conch.__file__).parent / "samples" / "tiger.ogg"
"""Seven seconds of verse."""
SAMPLES = 16_000
"""Samples of SPEECH that are recognised, a second: enough for encoders, decoders and rescorers."""
STREAM_ID = "warm-up"
TIMEOUT_S = 30.0


def requests_for(models: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the options of few requests that together call every component among these models."""
    needed = [
        (options, components_of(RecognitionOptions.parse(options, live="mode" in options)))
        for family in all_families()
        for options in family.warm_ups
    ]
    for name, copies in named_models(models).items():
        needed.append(({"model": name}, dict.fromkeys(copies.values(), name)))
    chosen = []
    called: set[str] = set()
    for options, components in sorted(needed, key=lambda item: -len(item[1])):
        if components.keys() <= set(models) and not components.keys() <= called:
            chosen.append(options)
            called |= components.keys()
    return chosen


def warm_up(endpoints: Endpoints) -> None:
    """Send `speech`, if it is there, the requests of `requests_for`; failures are only logged."""
    models = endpoints.ready_models()
    if "speech" not in models:
        return
    import soundfile  # where it is needed: servers of other models start without it

    samples, _ = soundfile.read(SPEECH, SAMPLES, dtype="int16")
    for options in requests_for(models):
        head, body = request_body(options, samples.tobytes())
        headers = {"Inference-Header-Content-Length": str(head)}
        status, answer = endpoints.fetch(
            "inference", "POST", "/v2/models/speech/infer", body, headers, TIMEOUT_S
        )
        if status != 200:
            reason = answer.decode("utf-8", "replace") or f"no answer within {TIMEOUT_S:g} s"
            LOGGER.warning("the first request, with the options %s, failed: %s", options, reason)


def wake_fitting(endpoints: Endpoints) -> None:
    """Let `fitting`, if it is there, go on with its work: it waits for a first request."""
    name = {"name": "FILE_NAME", "shape": [1, 1], "datatype": "BYTES", "data": [""]}
    body = json.dumps({"parameters": {"action": "list"}, "inputs": [name]}).encode()
    if FITTING in endpoints.ready_models():
        endpoints.fetch("inference", "POST", f"/v2/models/{FITTING}/infer", body, {}, TIMEOUT_S)


def request_body(options: Mapping[str, Any], pcm16: bytes) -> tuple[int, bytes]:
    """Return the bytes of the JSON of a request to `speech` in Triton's binary form, and all bytes.

    With a mode the request is a live stream of one chunk.
    """
    position = {"sequence_id": STREAM_ID, "sequence_start": True, "sequence_end": True}
    tensor = {
        "name": "PCM16",
        "shape": [1, len(pcm16) // 2],
        "datatype": "INT16",
        "parameters": {"binary_data_size": len(pcm16)},
    }
    head = json.dumps(
        {
            "parameters": {**options, **(position if "mode" in options else {})},
            "inputs": [tensor],
            "outputs": [{"name": "RESULT"}],
        }
    ).encode()
    return len(head), head + pcm16
