"""`conch transcribe`: turn audio files into text, JSON, subtitles or a format of scorers."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, output, positive
from conch.cli.option_flags import add_option_flags, given_options, speaker_names
from conch.cli.progress import STDIN, FileProgress, Progress
from conch.cli.server import (
    add_server_flags,
    checked_options,
    given_server,
    server_url,
    with_options_of_formats,
)
from conch.client import AsyncClient, joined_parts
from conch.client.asynchronous import has_streams
from conch.client.endpoint import Endpoint
from conch.client.poison import Losses
from conch.whole import write_whole
from conch.wire.errors import ConchError, ServerLostError, TranscriptionError, UnreachableError
from conch.wire.formats import FORMATS, recording_name, to_json, to_text
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript
from conch.wire.speaker_names import renamed, with_names

PATIENCE_S = 24 * 3600.0
"""Seconds to wait for an answer; the user has Ctrl-C."""
HEALED_S = 60.0
"""Seconds to wait for a server that was lost, before its files fail."""
MAX_SENDS = 3
"""Times that a file is sent to a server that cannot be reached, or is lost."""
LOOK_S = 0.5
"""Seconds between two checks that it is back."""

SUFFIXES = {"text": "txt"}
"""Suffixes of output files, where they are not the name of the format."""
SEVERAL = ("text", "json", "ctm", "stm", "rttm")
"""Formats that may follow each other in one output."""

EXAMPLES = """
examples:
  conch transcribe talk.mp3                         starts a server, text on stdout
  conch transcribe talk.mp3 -o talk.srt --format srt
  conch transcribe *.flac --output-dir out --format vtt --jobs 8
  conch transcribe --url grpc://gpu-box:8001 --rescore --nbest 5 --format json talk.wav
  CONCH_API_KEY=… conch transcribe --url https://gateway.example.org talk.wav
  conch transcribe rede.mp3 --whisper base --language de    (conch models get base, once)
  conch transcribe film.mkv --format srt -o film.srt
  conch transcribe *.flac --format ctm > heard.ctm  for scoring by sclite
  conch transcribe call.wav --channels split        a line for each turn, with its channel
  conch transcribe meeting.mp3 --speakers auto      a line for each turn, with its speaker
  conch transcribe meeting.mp3 --speaker-names A=Ann,B=Ben
  curl -s https://example.org/talk.m4a | conch transcribe -

The command takes any audio that FFmpeg decodes: wav, flac, ogg, mp3, m4a, webm, amr,
wma, the sound of a video, ... Warnings about a file (cut off, clipped, without speech) go to
stderr. An existing output file is overwritten once its transcript is ready.

On a terminal a line shows how much of the audio is done. Text that goes there too is written
segment by segment, for files longer than 30 s and not over http:// to a Triton. JSON is indented
there; elsewhere it is one object per line. Without --url the command starts a server with only the
models that the options need.

exit codes: 0 all files done, 1 a file failed (the others are done), 2 wrong usage, 130 Ctrl-C
"""
OUTPUT_DIR = """
--output-dir DIR  write a file for each input, talk.mp3 to DIR/talk.txt; a missing DIR is created
"""
OTHERS = """
--jobs N=4             files in flight
--speaker-names NAMES  in place of the labels of speakers, as A=Ann,B=Ben; sets --speakers auto
"""


@dataclass(frozen=True, slots=True)
class TranscribeJob:
    format: str
    num_inputs: int
    options: dict[str, Any]
    jobs: int
    output: Path | None = None
    """The output file of the only input."""
    output_dir: Path | None = None
    """The folder with an output file for each input."""
    speaker_names: Mapping[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @property
    def is_text_shown(self) -> bool:
        """Whether text goes to a terminal, a line for each segment as soon as it is final."""
        is_elsewhere = self.output is not None or self.output_dir is not None
        return self.format == "text" and not is_elsewhere and sys.stdout.isatty()

    def destination(self, name: str) -> Path | None:
        """Return the output file of an input, None for stdout."""
        if self.output_dir is None:
            return self.output
        stem = Path(_title(name)).stem
        return self.output_dir / f"{stem}.{SUFFIXES.get(self.format, self.format)}"

    def render(self, name: str, transcript: Transcript) -> str:
        if self.format == "json":
            is_for_people = self.destination(name) is None and sys.stdout.isatty()
            return to_json(transcript, indent=2 if is_for_people else None, file=name)
        text = FORMATS[self.format](transcript, _title(name))
        if self.format == "text" and self.num_inputs > 1 and self.destination(name) is None:
            return f"{self.heading(name)}{text}\n"
        return text

    def heading(self, name: str) -> str:
        """Return the line above a text that shares stdout with others."""
        return f"==> {name} <==\n" if self.num_inputs > 1 else ""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "transcribe",
        run,
        help="transcribe audio files",
        usage="%(prog)s FILE... [--url URL] [--format FORMAT] [-o FILE | --output-dir DIR] ...",
        description="Transcribe audio files: with the server at --url, or with one that is\n"
        "started for this and stopped afterwards.",
        epilog=EXAMPLES,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="audio files; - reads stdin")
    add_server_flags(parser)
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        default="text",
        help="format of the output; srt, vtt and ctm turn --word-timestamps on, rttm and seglst "
        "--speakers auto (default: text)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=output, metavar="FILE", help="write to this file")
    add_flags(where, OUTPUT_DIR, output_dir=Path)
    add_flags(parser, OTHERS, jobs=positive, speaker_names=(speaker_names, {}))
    add_option_flags(parser, choices={"mode": ("auto", "offline")})


def run(args: argparse.Namespace) -> int:
    job = _job(args)
    headers, weights = given_server(args)
    names = [name for name in args.files if not _is_refused(job, name)]
    if names:
        stdin = sys.stdin.buffer.read() if STDIN in names else b""
        can_stream = args.url is None or has_streams(Endpoint.parse(args.url, headers=headers))
        progress = Progress(names, stdin, can_stream=can_stream, is_text_shown=job.is_text_shown)
        entry_points = {progress.file(name).model for name in names}
        # The event loop first: Ctrl-C right after the server's start must not find it half made.
        with (
            _event_loop() as loop,
            server_url(args.url, [job.options], weights, others=entry_points) as url,
            progress,
        ):
            client = AsyncClient(url, timeout_s=PATIENCE_S, headers=headers)
            transcription = Transcription(job, client, progress, is_known=args.url is None)
            loop.run(transcription.of_all(names, stdin))
    return 1 if job.failed else 0


def _event_loop() -> AbstractContextManager[Any]:
    """Return an object with `run`: asyncio's Runner, or on Python 3.10 asyncio itself.

    A Runner makes its loop before the server starts; Python 3.10 starts no server.
    """
    if sys.version_info >= (3, 11):
        return asyncio.Runner()
    return nullcontext(asyncio)


def _job(args: argparse.Namespace) -> TranscribeJob:
    options, names = with_options_of_formats([args.format], given_options(args)), args.speaker_names
    job = TranscribeJob(
        args.format, len(args.files), options, args.jobs, args.output, args.output_dir, names
    )
    checked_options(options, [args.url])
    if job.output_dir is not None:
        try:
            job.output_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--output-dir {job.output_dir}: {error.strerror}") from None
    _check_outputs(job, args.files)
    return job


def _check_outputs(job: TranscribeJob, names: Sequence[str]) -> None:
    if names.count(STDIN) > 1:
        raise UsageError("- (stdin) can be read only once")
    if len(names) > 1 and job.output is not None:
        raise UsageError("-o takes the output of one file; use --output-dir for several, or > FILE")
    if len(names) > 1 and job.output_dir is None and job.format not in SEVERAL:
        raise UsageError(f"{job.format} of several files needs --output-dir")
    called: dict[str, str] = {}
    owners: dict[Path, str] = {}
    inputs = {Path(name).absolute() for name in names}
    for name in names:
        path, recording = job.destination(name), recording_name(_title(name))
        if path is None and job.format in ("ctm", "stm", "rttm"):
            if recording in called:
                raise UsageError(
                    f"{called[recording]} and {name} would both be called {recording} in the "
                    f"{job.format}; use --output-dir"
                )
            called[recording] = name
        if path is None:
            continue
        if path.absolute() in inputs:
            raise UsageError(f"{path} would overwrite an input")
        if owners.setdefault(path, name) != name:
            raise UsageError(
                f"{owners[path]} and {name} would both be written to {path}; use two calls"
            )


def _title(name: str) -> str:
    return "stdin" if name == STDIN else name


def _is_refused(job: TranscribeJob, name: str) -> bool:
    """Report a file that cannot be read, before a server is started for it."""
    path = Path(name)
    if name == STDIN or path.is_file() or path.is_fifo():
        return False
    if path.is_dir():
        reason = f"a folder; name the files in it, as in {path}/*.wav"
    else:
        reason = "not a file" if path.exists() else "no such file"
    job.failed.append(name)
    print(f"conch: {name}: {reason}", file=sys.stderr)
    return True


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    audio: bytes | str
    progress: FileProgress
    output: "asyncio.Queue[str | None]" = field(default_factory=asyncio.Queue)
    """Texts for stdout; None is the end."""


class Transcription:
    def __init__(
        self,
        job: TranscribeJob,
        client: AsyncClient,
        progress: Progress,
        *,
        is_known: bool,
        healed_s: float = HEALED_S,
        look_s: float = LOOK_S,
    ) -> None:
        """A server that `is_known` has answered before; the address of another one may be wrong."""
        self._job, self._client, self._progress = job, client, progress
        self._is_known, self._healed_s, self._look_s = is_known, healed_s, look_s
        self._slots = asyncio.Semaphore(job.jobs)
        # Held by a file that is sent again: it may be what kills the server.
        self._alone = asyncio.Lock()

    async def of_all(self, names: Sequence[str], stdin: bytes) -> None:
        """Transcribe all files; write them to stdout in order, whichever is done first."""
        inputs = [
            Input(name, stdin if name == STDIN else name, self._progress.file(name))
            for name in names
        ]
        async with self._client:
            ticking = asyncio.create_task(self._progress.tick())
            tasks = [asyncio.create_task(self._transcribe(item)) for item in inputs]
            try:
                for item in inputs:
                    while (text := await item.output.get()) is not None:
                        self._progress.write(text, sys.stdout)
                await asyncio.gather(*tasks)
            finally:
                # Also after Ctrl-C, and when stdout is closed: no task may outlive the client.
                for task in (ticking, *tasks):
                    task.cancel()
                await asyncio.gather(ticking, *tasks, return_exceptions=True)

    async def _transcribe(self, item: Input) -> None:
        """Transcribe one file; queue its texts for stdout, then None."""
        job, path = self._job, self._job.destination(item.name)
        problem = ""
        try:
            async with self._slots:
                transcript = with_names(await self.answered(item), job.speaker_names)
            for warning in transcript.warnings:
                self._say(item, f"warning: {warning}")
            if path is not None:
                # JSON holds names of files, which need not be UTF-8.
                text = job.render(item.name, transcript)
                write_whole(path, text)
            elif not (job.is_text_shown and item.progress.is_streamed):
                item.output.put_nowait(job.render(item.name, transcript))
        except ConchError as error:
            problem = str(error).removeprefix(f"{item.name}: ")
        except OSError as error:
            problem = f"cannot write {path}: {error.strerror}"
        finally:
            if problem:
                job.failed.append(item.name)
                self._say(item, problem)
            item.progress.done()
            item.output.put_nowait(None)

    def _say(self, item: Input, text: str) -> None:
        self._progress.write(f"conch: {item.name}: {text}\n", sys.stderr)

    async def answered(self, item: Input) -> Transcript:
        """Transcribe one file; if the server is lost with it, send it again, alone, to it."""
        sends, losses = 0, Losses()
        while True:
            sends += 1
            try:
                async with self._alone if sends > 1 else nullcontext():
                    with losses.attempt():
                        transcript = await self._sent_once(item)
            except ServerLostError as error:
                is_new = isinstance(error, UnreachableError) and not self._is_known
                # Text on a terminal cannot be taken back.
                is_shown = self._job.is_text_shown and item.progress.is_streamed
                if is_new or is_shown or sends == MAX_SENDS:
                    raise
                if not await self._is_back(item):
                    self._is_known = False
                    raise
            except TranscriptionError:
                self._is_known = True
                raise
            else:
                self._is_known = True
                return transcript

    async def _is_back(self, item: Input) -> bool:
        """Wait for a server that was lost; return whether it is back."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._healed_s
        while clock() < deadline:
            await asyncio.sleep(self._look_s)
            # While it starts, it may refuse, or answer late.
            with suppress(ConchError):
                if await self._client.is_ready(item.progress.model):
                    return True
        return False

    async def _sent_once(self, item: Input) -> Transcript:
        """Return the transcript of one file; queue its text by segment if a terminal shows it."""
        job = self._job
        if not item.progress.is_streamed:
            return await self._client.transcribe(item.audio, **job.options)
        parts: list[Transcript] = []
        heading = job.heading(item.name)
        async with aclosing(self._client.stream(item.audio, **job.options)) as stream:
            async for part in stream:
                parts.append(part)
                if not part.segments:
                    continue
                item.progress.reached(part.segments[-1].end)
                if job.is_text_shown and part.text:
                    item.output.put_nowait(heading + to_text(renamed(part, job.speaker_names)))
                    heading = ""
        if job.is_text_shown and job.num_inputs > 1:
            item.output.put_nowait(f"{heading}\n")
        return joined_parts(parts, RecognitionOptions.parse(job.options).nbest)
