"""Let every component of `speech` answer once, so that no first request is slow."""

import json
from collections.abc import Collection, Mapping, Sequence
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
        status, answer = _sent(endpoints, "speech", request_for(options, samples.tolist()))
        if status != 200:
            reason = answer.decode("utf-8", "replace") or f"no answer within {TIMEOUT_S:g} s"
            LOGGER.warning("the first request, with the options %s, failed: %s", options, reason)


def wake_fitting(endpoints: Endpoints) -> None:
    """Let `fitting`, if it is there, go on with its work: it waits for a first request."""
    name = {"name": "FILE_NAME", "shape": [1, 1], "datatype": "BYTES", "data": [""]}
    if FITTING in endpoints.ready_models():
        _sent(endpoints, FITTING, {"parameters": {"action": "list"}, "inputs": [name]})


def request_for(options: Mapping[str, Any], samples: Sequence[int]) -> Mapping[str, Any]:
    """Return a request to `speech`; with a mode it is a live stream of one chunk."""
    position = {"sequence_id": STREAM_ID, "sequence_start": True, "sequence_end": True}
    shape = [1, len(samples)]
    return {
        "parameters": {**options, **(position if "mode" in options else {})},
        "inputs": [{"name": "PCM16", "shape": shape, "datatype": "INT16", "data": samples}],
        "outputs": [{"name": "RESULT"}],
    }


def _sent(endpoints: Endpoints, model: str, request: Mapping[str, Any]) -> tuple[int, bytes]:
    body, path = json.dumps(request), f"/v2/models/{model}/infer"
    return endpoints.fetch("inference", "POST", path, body, timeout_s=TIMEOUT_S)
