"""Read a form with a file, within limits, as it comes; a large file goes to the disk."""

import asyncio
import hashlib
import io
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TypeVar

from aiohttp import BodyPartReader, hdrs, web
from aiohttp.http import HttpProcessingError

from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError
from conch.gateway.limits import Room

MAX_FIELD_BYTES = 64 * 1024
"""Largest field that is not a file."""
MAX_FIELDS = 256
"""Fields of a form, with the file."""
MAX_NAME = 128
"""Characters of a field's name."""
MAX_FORM_BYTES = 512 * 1024
"""All fields that are no file: they are in memory."""
MEMORY_BYTES = 1 << 20
PIECE_BYTES = 256 * 1024
"""Bytes of a file to read at a time."""
IDLE_S = 60.0
"""Seconds without a byte after which an upload is given up."""
LEAST_BYTES_PER_S = 4000
"""Slowest upload, after IDLE_S seconds: each takes a place from the others."""
MB = 1_000_000

HEADER_BYTES = 16 * 1024
"""Generous share of a part's headers in the length of a body."""

T = TypeVar("T")


class _Pace:
    """How fast a body comes, over all of its parts."""

    def __init__(self) -> None:
        self._bytes, self._began = 0, time.monotonic()

    def came(self, size: int) -> None:
        """Take note of so many bytes.

        Raises:
            ApiError: less comes than LEAST_BYTES_PER_S.
        """
        self._bytes += size
        if self._bytes < (time.monotonic() - self._began - IDLE_S) * LEAST_BYTES_PER_S:
            raise _stalled(f"less than {LEAST_BYTES_PER_S} bytes a second come")


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a request."""

    fields: Mapping[str, tuple[str, ...]]
    """Values by name, in the order in which they came."""
    file: IO[bytes]
    """The file; it is gone after the `with` block."""
    digest: str
    """SHA-256 of the file, in hexadecimal digits."""


@asynccontextmanager
async def uploaded(request: web.Request, max_mb: float, room: Room) -> AsyncIterator[Form]:
    """Yield the form that a request sends as multipart/form-data (RFC 7578).

    Uploads take as long as their clients like, and many come at once: so what is larger than
    MEMORY_BYTES waits on the disk.

    Args:
        request: The request; its body is read.
        max_mb: Largest file, in megabytes.
        room: For its bytes, up to the end of the block.

    Raises:
        ApiError: there is no room, which is said before the body is read; the body is not a form,
            has no file, is too large, or does not come.
    """
    if request.content_type != "multipart/form-data":
        raise ApiError(
            415,
            "send the file as multipart/form-data (curl -F file=@talk.mp3), not "
            f"{request.content_type}",
            param="file",
            code="unsupported_media_type",
        )
    most = min(int(max_mb * MB), room.most)
    # A compressed body has any length, and one in chunks does not tell its own.
    length = None if hdrs.CONTENT_ENCODING in request.headers else request.content_length
    if (request.content_length or 0) > most + MAX_FORM_BYTES + HEADER_BYTES * MAX_FIELDS:
        raise _too_large(most / MB)
    with (
        room.taken(min(most, most if length is None else length)) as keep,
        tempfile.SpooledTemporaryFile(MEMORY_BYTES, prefix="conch-upload-") as file,
    ):
        upload = _Upload(file)
        fields = await _read(request, upload, most, _too_large(most / MB))
        if not file.tell():
            raise ApiError(400, "the file is empty: 0 bytes", param="file", code="invalid_audio")
        keep(file.tell())
        yield Form(fields, file, upload.digest.hexdigest())


class _Upload:
    """A file that comes in pieces, and its SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, piece: bytes) -> None:
        self.digest.update(piece)
        self._file.write(piece)


async def _read(
    request: web.Request, upload: _Upload, max_bytes: int, too_large: ApiError
) -> dict[str, tuple[str, ...]]:
    """Write the file of a form to `upload` and return the other fields."""
    fields: dict[str, tuple[str, ...]] = {}
    has_file = False
    pace, room = _Pace(), MAX_FORM_BYTES
    try:
        reader = await request.multipart()
        for _ in range(MAX_FIELDS + 1):
            part = await _soon(reader.next())
            if part is None:
                break
            pace.came(0)
            if not isinstance(part, BodyPartReader):
                raise ApiError(400, "a form inside a form is not taken", code="invalid_form")
            if len(part.name or "") > MAX_NAME:
                raise ApiError(
                    400,
                    f"the name of a field takes at most {MAX_NAME} characters; "
                    f"sent: {len(part.name or '')}",
                    code="invalid_form",
                )
            if part.name == "file":
                if has_file:
                    raise ApiError(
                        400, "send one file in each request", param="file", code="invalid_form"
                    )
                has_file = True
                async for piece in _pieces(part, max_bytes, too_large, pace):
                    # In a thread: most files go to the disk.
                    await asyncio.to_thread(upload.write, piece)
                continue
            if part.filename is not None:
                raise ApiError(
                    400,
                    f"the file is in the field {part.name!r:.80}; it goes into the field 'file'",
                    param="file",
                    code="missing_file",
                )
            text = io.BytesIO()
            most, problem = MAX_FIELD_BYTES, _long_field(part.name)
            if room < most:
                most, problem = room, _long_form()
            async for piece in _pieces(part, most, problem, pace):
                text.write(piece)
            room -= text.tell()
            name = part.name or ""
            fields[name] = (*fields.get(name, ()), text.getvalue().decode())
        else:
            raise ApiError(400, f"more than {MAX_FIELDS} fields", code="invalid_form")
    except UnicodeDecodeError:
        raise ApiError(400, "a field is not UTF-8", code="invalid_form") from None
    except (ValueError, HttpProcessingError, web.HTTPException) as error:
        said = getattr(error, "message", None) or error
        raise ApiError(400, f"the form is damaged: {said}", code="invalid_form") from None
    if not has_file:
        raise ApiError(400, "the form has no field 'file'", param="file", code="missing_file")
    return fields


async def _pieces(
    part: BodyPartReader, max_bytes: int, error: ApiError, pace: _Pace
) -> AsyncIterator[bytes]:
    """Yield a part as it comes; raise `error` if it is larger than `max_bytes`."""
    size = 0
    while piece := await _soon(part.read_chunk(PIECE_BYTES)):
        size += len(piece)
        if size > max_bytes:
            raise error
        pace.came(len(piece))
        yield piece


async def _soon(coming: Awaitable[T]) -> T:
    try:
        async with timeout(IDLE_S):
            return await coming
    except asyncio.TimeoutError:
        raise _stalled(f"nothing came for {IDLE_S:g} s") from None


def _stalled(what: str) -> ApiError:
    return ApiError(408, f"{what} in the middle of the upload", code="upload_stalled")


def _too_large(max_mb: float) -> ApiError:
    return ApiError(
        413,
        f"the file has more than {max_mb:g} MB; send it compressed (mp3, Opus), or in parts",
        param="file",
        code="file_too_large",
    )


def _long_form() -> ApiError:
    return ApiError(
        400,
        f"the fields beside the file have more than {MAX_FORM_BYTES} bytes",
        code="invalid_form",
    )


def _long_field(name: str | None) -> ApiError:
    return ApiError(
        400,
        f"field {name!r} has more than {MAX_FIELD_BYTES} bytes",
        param=name,
        code="invalid_form",
    )
