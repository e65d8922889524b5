"""Requests about fitted voices: as tensors for a Triton, and as HTTP for a gateway."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
import numpy as np

from conch.client.tensors import Request
from conch.fitted_voices import FittedVoice
from conch.wire.entry_points import FITTING
from conch.wire.errors import AudioError, ServerError

File: TypeAlias = str | os.PathLike[str] | tuple[str, bytes]
"""Path of an audio file, or the name and the bytes of one."""
VOICES = "/v1/audio/voices"
_METHODS = {"start": "POST", "get": "GET", "list": "GET", "stop": "POST", "remove": "DELETE"}


def read(file: File) -> tuple[str, bytes]:
    """Return the name and the bytes of a file; raise an AudioError if it cannot be read."""
    if isinstance(file, tuple):
        name, data = file
        return name, data
    try:
        return Path(file).name, Path(file).read_bytes()
    except OSError as error:
        raise AudioError(f"{os.fspath(file)} cannot be read: {error.strerror}") from None


def fitting_request(
    action: str,
    timeout_s: float,
    name: str = "",
    files: Sequence[File] = (),
    consent: File | None = None,
    **options: int,
) -> Request:
    """Return a request; raise an AudioError if a file cannot be read."""
    recordings = [read(file) for file in files]
    inputs = {"FILE_NAME": _row([title.encode() for title, _ in recordings] or [b""])}
    if recordings:
        inputs["AUDIO"] = _row([data for _, data in recordings])
    if consent is not None:
        inputs["CONSENT"] = _row([read(consent)[1]])
    named: dict[str, str] = {"name": name} if name else {}
    return Request(FITTING, inputs, {"action": action, **named, **options}, timeout_s)


def _row(items: Sequence[bytes]) -> Any:
    row = np.empty((1, len(items)), np.object_)
    row[0] = items
    return row


def http_of(
    request: Request,
) -> tuple[str, str, Mapping[str, Any], Sequence[tuple[str, str, bytes]]]:
    """Return a request to a gateway: method, path, fields, and files with their field and name."""
    options = dict(request.parameters)
    action, name = str(options.pop("action")), str(options.pop("name", ""))
    tail = f"/{quote(name, safe='')}" if action in ("get", "stop", "remove") else ""
    path = f"{VOICES}{tail}{'/stop' if action == 'stop' else ''}"
    files = []
    if "AUDIO" in request.inputs:
        titles, audios = (request.inputs[key][0] for key in ("FILE_NAME", "AUDIO"))
        pairs = zip(titles, audios, strict=True)
        files = [("audio_sample", title.decode(), data) for title, data in pairs]
    if "CONSENT" in request.inputs:
        files.append(("consent", "consent", request.inputs["CONSENT"].item()))
    return _METHODS[action], path, {"name": name, **options}, files


def voice_of(answer: bytes) -> FittedVoice:
    """Return the voice of an answer; raise a ServerError for something else."""
    try:
        return FittedVoice.from_json(answer)
    except msgspec.MsgspecError as error:
        raise ServerError(f"the answer is no voice: {error!s:.200}") from None


def voices_of(answer: bytes) -> list[FittedVoice]:
    """Return the fitted voices of an answer; raise a ServerError for something else."""
    try:
        sent = json.loads(answer).get("fitted", [])
        return msgspec.convert(sent, list[FittedVoice])
    except (ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise ServerError(f"the answer is no list of voices: {error!s:.200}") from None
