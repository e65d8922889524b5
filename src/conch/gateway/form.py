"""Read a form with a file, within limits, as it comes; a large file goes to the disk."""

import asyncio
import errno
import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import IO, Any, NamedTuple, TypeVar

from aiohttp import BodyPartReader, MultipartReader, hdrs, web
from aiohttp.http import HttpProcessingError

from conch.client.aio import within
from conch.gateway.bodies import problem_of
from conch.gateway.config import Times
from conch.gateway.errors import ApiError
from conch.gateway.state import CALLER, GATEWAY

logger = logging.getLogger(__name__)

MB = 1_000_000
MAX_FIELD_BYTES = 64 * 1024
"""Largest field that is not a file."""
AUDIO_FIELDS = ("known_speakers", "known_speaker_references")
"""Fields that are not the file, but may hold audio too, or a list of it: with or without []."""
MAX_AUDIO_BYTES = 8 * MB
"""All fields with audio, in base64: four references of 30 s take 5 MB."""
MAX_FILES_BYTES = 128 * MB
"""All files of a form with several."""
MAX_FIELDS = 256
"""Fields of a form, with the file."""
MAX_NAME = 128
"""Characters of a field's name."""
MAX_FORM_BYTES = 512 * 1024
"""All fields without the file: they are in memory."""
MEMORY_BYTES = 1 << 20
PIECE_BYTES = 256 * 1024
"""Bytes of a file to read at a time."""
LEAST_BYTES_PER_S = 4000
"""Slowest upload, after `idle_s` seconds: each takes room from the others. A large one must be
faster, so that it ends in `upload_s`."""
HEADER_BYTES = 16 * 1024
"""Most bytes of a part's headers that count in the length of a body."""

T = TypeVar("T")


class NamedFile(NamedTuple):
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a request."""

    fields: Mapping[str, tuple[str, ...]]
    """Values by name, in the order in which they came."""
    file: IO[bytes]
    """The file; it is gone after the `with` block."""
    digest: str
    """SHA-256 of the file or files, in hexadecimal digits."""
    files: Mapping[str, tuple[NamedFile, ...]] = field(default_factory=dict)
    """Files of other fields by name, in their order."""


@asynccontextmanager
async def uploaded(
    request: web.Request, files: Collection[str] = (), head: bytes | None = None
) -> AsyncIterator[Form]:
    """Yield the form that a request sends as multipart/form-data (RFC 7578).

    It has a field `file`, or in its place any number of `files`, which stay in memory. With a
    `head`, even an empty one, the body is the file alone, which begins with these bytes.

    Uploads take as long as their clients like, and many come at once: so files larger than
    MEMORY_BYTES wait on the disk. Without room for a body it is refused before it is read.
    """
    if head is None and request.content_type != "multipart/form-data":
        raise ApiError(
            415,
            "send the file as multipart/form-data (curl -F file=@talk.mp3), not "
            f"{request.content_type}",
            param="file",
            code="unsupported_media_type",
        )
    gateway, caller = request.app[GATEWAY], request[CALLER]
    most = min(int(gateway.config.max_body_mb * MB), gateway.largest_upload)
    # A compressed body has any length, and a chunked one does not give its own.
    length = None if hdrs.CONTENT_ENCODING in request.headers else request.content_length
    others = MAX_FORM_BYTES + MAX_AUDIO_BYTES + HEADER_BYTES * MAX_FIELDS
    if (request.content_length or 0) > most + others:
        raise _too_large(most / MB)
    size = min(most, most if length is None else length)
    try:
        with (
            gateway.uploads.taken(size, caller.name, gateway.share) as keep,
            tempfile.SpooledTemporaryFile(MEMORY_BYTES, prefix="conch-upload-") as file,
        ):
            length = request.content_length or 0
            reader = _FormReader(file, most, gateway.config.times, length, files)
            await (reader.read(request) if head is None else reader.read_bare(request, head))
            if file.tell() <= len(head or b"") and not files:
                problem = "the file is empty: 0 bytes"
                raise ApiError(400, problem, param="file", code="invalid_audio")
            keep(file.tell() + reader.audio_bytes)
            yield Form(reader.fields, file, reader.digest.hexdigest(), reader.files)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(error) from None
        raise


class _FormReader:
    """Reads a form in pieces: its file to the disk, and its other fields to memory."""

    def __init__(
        self,
        file: IO[bytes],
        max_bytes: int,
        times: Times,
        length: int,
        names: Collection[str],
    ) -> None:
        """`names` are the fields with files, in place of `file`."""
        self._names = names
        self.files: dict[str, tuple[NamedFile, ...]] = {}
        self._file, self._max_bytes, self._times = file, max_bytes, times
        self._least_rate = max(LEAST_BYTES_PER_S, length / times.upload_s)
        self.digest = hashlib.sha256()
        self.fields: dict[str, tuple[str, ...]] = {}
        self._has_file = False
        self._room = MAX_FORM_BYTES
        """Bytes that further fields may take."""
        self.audio_bytes = 0
        """Bytes of the fields that hold audio."""
        self._num_bytes, self._began = 0, time.monotonic()

    async def read(self, request: web.Request) -> None:
        try:
            parts = _MultipartParts(request.headers, request.content)
            for _ in range(MAX_FIELDS + 1):
                part = await self._soon(parts.next())
                if part is None:
                    break
                self._keep_pace(0)
                await self._read_part(part)
            else:
                raise _wrong(f"more than {MAX_FIELDS} fields")
        except UnicodeDecodeError:
            raise _wrong("a field is not UTF-8") from None
        except (ValueError, HttpProcessingError, web.RequestPayloadError) as error:
            raise _wrong(f"the form is damaged: {problem_of(error)}") from None
        if not self._has_file and not self._names:
            raise _wrong("the form has no field 'file'", "file", code="missing_file")

    async def read_bare(self, request: web.Request, head: bytes) -> None:
        self._file.write(head)
        try:
            await self._spool(request.content.read)
        except (HttpProcessingError, web.RequestPayloadError) as error:
            raise _wrong(f"the body is damaged: {problem_of(error)}") from None

    async def _read_part(self, part: Any) -> None:
        if not isinstance(part, BodyPartReader):
            raise _wrong("a form inside a form is not taken")
        name = part.name or ""
        if len(name) > MAX_NAME:
            limit = f"the name of a field takes at most {MAX_NAME} characters"
            raise _wrong(f"{limit}; sent: {len(name)}")
        bare = name.removesuffix("[]")
        if bare in self._names:
            room = min(MAX_FILES_BYTES, self._max_bytes) - self.audio_bytes
            problem = _wrong(f"the files have more than {MAX_FILES_BYTES // MB} MB", name)
            data = await self._whole(part, room, problem)
            self.audio_bytes += len(data)
            self.digest.update(data)
            file = NamedFile(part.filename or name, data)
            self.files[name] = (*self.files.get(name, ()), file)
            return
        if name == "file" and not self._names:
            if self._has_file:
                raise _wrong("send one file in each request", "file")
            self._has_file = True
            return await self._spool(part.read_chunk)
        if part.filename is not None:
            field = next(iter(self._names), "file")
            message = f"the file is in the field {name!r:.80}; it goes into the field {field!r}"
            raise _wrong(message, field, code="missing_file")
        if bare in AUDIO_FIELDS:
            problem = _wrong(f"field {name!r} has more than {MAX_AUDIO_BYTES} bytes", name)
            data = await self._whole(part, MAX_AUDIO_BYTES - self.audio_bytes, problem)
            self.audio_bytes += len(data)
        else:
            problem = _wrong(f"field {name!r} has more than {MAX_FIELD_BYTES} bytes", name)
            if self._room < MAX_FIELD_BYTES:
                problem = _wrong(f"the other fields have more than {MAX_FORM_BYTES} bytes")
            data = await self._whole(part, min(MAX_FIELD_BYTES, self._room), problem)
            self._room -= len(data)
        self.fields[name] = (*self.fields.get(name, ()), data.decode())

    async def _whole(self, part: BodyPartReader, most: int, problem: ApiError) -> bytes:
        return b"".join([piece async for piece in self._pieces(part.read_chunk, most, problem)])

    async def _spool(self, read: Callable[[int], Awaitable[bytes]]) -> None:
        problem = _too_large(self._max_bytes / MB)
        async for piece in self._pieces(read, self._max_bytes, problem):
            # In a thread: most files go to the disk.
            await asyncio.to_thread(self._write, piece)

    def _write(self, piece: bytes) -> None:
        self.digest.update(piece)
        self._file.write(piece)

    async def _pieces(
        self, read: Callable[[int], Awaitable[bytes]], max_bytes: int, error: ApiError
    ) -> AsyncIterator[bytes]:
        """Yield a part, or a body, as it comes; raise `error` if it is larger than `max_bytes`."""
        size = 0
        while piece := await self._soon(read(PIECE_BYTES)):
            size += len(piece)
            if size > max_bytes:
                raise error
            self._keep_pace(len(piece))
            yield piece

    def _keep_pace(self, size: int) -> None:
        """Count bytes, and refuse a body that comes too slowly to end in time."""
        self._num_bytes += size
        seconds = time.monotonic() - self._began - self._times.idle_s
        if self._num_bytes < seconds * self._least_rate:
            raise _stalled(f"less than {self._least_rate:.0f} bytes a second come")
        if seconds > self._times.upload_s:
            raise _stalled(f"no end came within {self._times.upload_s:g} s")

    async def _soon(self, coming: Awaitable[T]) -> T:
        idle_s = self._times.idle_s
        async with within(idle_s, _stalled(f"nothing came for {idle_s:g} s")):
            return await coming


class _MultipartParts(MultipartReader):
    """The parts of a form, without two faults of aiohttp."""

    def _get_boundary(self) -> str:
        # Its own ends at a semicolon, also within quotes.
        header = Message()
        header[hdrs.CONTENT_TYPE] = self.headers[hdrs.CONTENT_TYPE]
        return header.get_boundary("")

    async def fetch_next_part(self) -> "MultipartReader | BodyPartReader":
        # Without a part before it, it reads a field `_charset_` itself, and loses its place.
        self._last_part = await super().fetch_next_part()
        return self._last_part


def _disk_full(error: OSError) -> ApiError:
    folder = tempfile.gettempdir()
    logger.error("no room for an upload in %s: %s", folder, error.strerror)
    free = f"{shutil.disk_usage(folder).free / MB:.0f} MB are free where it keeps uploads"
    message = f"the disk of this gateway is full: {free}; try again later"
    return ApiError(507, message, param="file", code="disk_full")


def _wrong(message: str, param: str | None = None, code: str = "invalid_form") -> ApiError:
    return ApiError(400, message, param=param, code=code)


def _stalled(problem: str) -> ApiError:
    return ApiError(408, f"{problem} in the middle of the upload", code="upload_stalled")


def _too_large(max_mb: float) -> ApiError:
    return ApiError(
        413,
        f"the file has more than {max_mb:g} MB; send it compressed (mp3, Opus), or in parts",
        param="file",
        code="file_too_large",
    )
