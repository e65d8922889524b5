"""Riva's recognition: `Recognize`, `StreamingRecognize` and `GetRivaSpeechRecognitionConfig`."""

import asyncio
import hashlib
import io
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

from conch.audio.encoding import wav_header
from conch.audio.sniffing import NUM_NAMED_BYTES, container_of, named_container_of, num_first_bytes
from conch.client.aio import within
from conch.gateway.errors import ApiError, invalid, overloaded
from conch.gateway.held import charged_updates, held, live_session_of
from conch.gateway.limits import check_length
from conch.gateway.live_audio import WAV_FORMS, LiveFrames, Samples
from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.gateway.models import OPENAI_MODELS, SPEECH_MODELS, options_of, servable, unknown_model
from conch.gateway.option_fields import granted
from conch.gateway.riva.calls import RpcCall
from conch.gateway.riva.protocol import Message, message_class
from conch.gateway.riva.recognition_config import CONTAINERS, RAW, RecognitionSettings, settings_of
from conch.gateway.servers import SessionClient, recognition_request
from conch.gateway.state import Gateway
from conch.wire.errors import OptionError, TranscriptionError, from_wire
from conch.wire.joining import num_words, separator
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment, Transcript, Word

_Response = message_class("nvidia.riva.asr.StreamingRecognizeResponse")
_Result = message_class("nvidia.riva.asr.SpeechRecognitionResult")
_Word = message_class("nvidia.riva.asr.WordInfo")

MOST_STABLE = 0.9
"""Stability of a text all of whose words stay while its utterance goes on."""
WHOLE = 1.0
"""Stability of the text of an utterance that has ended, before its second pass."""
DEFAULT_RATE = 16_000
"""Hz to which the audio of a container is decoded in a stream."""


def speaker_tags() -> defaultdict[Any, int]:
    """Return numbers for the names of speakers, from 1, in the order in which they first speak."""
    return defaultdict(count(1).__next__)


def results_of(transcript: Transcript, num_alternatives: int) -> Iterator[Message]:
    """Yield the result of a recording, or one for each of its channels; none without text.

    A client may join the texts of all results, or read the first alone.
    """
    tags = speaker_tags()
    parts: list[tuple[int, Sequence[Hypothesis], Sequence[Segment]]]
    parts = [(1, transcript.nbest[:num_alternatives], transcript.segments)]
    if transcript.channels:
        segments = dict(transcript.by_channel())
        parts = [
            (item.number, [Hypothesis(item.text, item.score, item.score)], segments[item.number])
            for item in transcript.channels
            if item.number in segments
        ]
    for number, nbest, spoken in parts:
        if nbest[0].text:
            result = _Result(channel_tag=number, audio_processed=transcript.duration)
            _add_alternatives(result, nbest, spoken, tags)
            yield result


class LiveResults:
    """Makes the responses of a stream: final utterances in order, then text that may change."""

    def __init__(self, num_alternatives: int, *, has_interim: bool) -> None:
        self._num_alternatives, self._has_interim = num_alternatives, has_interim
        self._tags = speaker_tags()
        self._num_final = 0
        """Utterances before this index are final."""
        self._ended: dict[int, LiveSegment] = {}
        """Utterances that wait for their second pass, or for one before them."""
        self._shown: tuple[str, float] = ("", 0.0)

    def after(self, update: LiveUpdate) -> Message | None:
        """Return the response to an update; None if nothing has changed."""
        response = _Response()
        for item in update.segments:
            if item.segment.index >= self._num_final:
                self._ended[item.segment.index] = item
        while self._ended and self._ended[first := min(self._ended)].is_final:
            segment = self._ended.pop(first).segment
            self._num_final = first + 1
            self._shown = ("", 0.0)
            if segment.text:
                result = response.results.add(is_final=True)
                nbest = segment.nbest[: self._num_alternatives]
                _add_alternatives(result, nbest, (segment,), self._tags)
        if self._has_interim and (shown := self._open(update)) not in (("", 0.0), self._shown):
            self._shown = shown
            text, stability = shown
            result = response.results.add(stability=stability)
            result.alternatives.add(transcript=text)
        for result in response.results:
            result.channel_tag, result.audio_processed = 1, update.audio_s
        return response if response.results else None

    def _open(self, update: LiveUpdate) -> tuple[str, float]:
        """Return the text that is not final yet, and how stable it is."""
        utterance = update.utterance
        ended = "".join(
            _spaced(item.segment.text)
            for _, item in sorted(self._ended.items())
            if item.segment.text
        )
        if utterance is None or not utterance.words:
            return ended, WHOLE if ended else 0.0
        firm = len(utterance.firm) / len(utterance.words)
        return ended + utterance.text, round(MOST_STABLE * firm, 2)


def _add_alternatives(
    result: Message,
    nbest: Sequence[Hypothesis],
    segments: Sequence[Segment],
    tags: defaultdict[Any, int],
) -> None:
    """Add hypotheses to a result, the best one with words and languages."""
    for hypothesis in nbest:
        result.alternatives.add(
            transcript=_spaced(hypothesis.text), confidence=_confidence(hypothesis)
        )
    best = result.alternatives[0]
    best.language_code.extend(dict.fromkeys(item.language for item in segments if item.language))
    for segment in segments:
        for word in segment.words:
            best.words.append(_word(word, segment, tags))


def _word(word: Word, segment: Segment, tags: defaultdict[Any, int]) -> Message:
    speaker = word.speaker or segment.speaker
    return _Word(
        start_time=round(1000 * word.start),
        end_time=round(1000 * word.end),
        word=word.text,
        confidence=word.confidence if word.confidence > 0 else 0.0,  # not NaN either
        speaker_tag=tags[speaker] if speaker else 0,
        language_code=segment.language,
    )


def _spaced(text: str) -> str:
    """Return a text with the space that follows it: clients join results without one."""
    return text + separator(text, text)


def _confidence(hypothesis: Hypothesis) -> float:
    """Return the mean probability of a word; 0 if it is not known, as Riva says it."""
    confidence = math.exp(min(0.0, hypothesis.am_score / max(1, num_words(hypothesis.text))))
    return confidence if math.isfinite(confidence) else 0.0


async def recognition_config(call: RpcCall) -> None:
    """Answer with the models; each hears recordings and streams, which clients list apart."""
    gateway = call.gateway
    requested = (await call.request()).model_name
    others = (*OPENAI_MODELS, *SPEECH_MODELS[1:])
    names = [name for name in await servable(gateway) if name not in others]
    if requested and requested not in names:
        raise unknown_model(requested, gateway.model_aliases, names)
    response = call.method.response()
    for name in [requested] if requested else names:
        for mode in ("online", "offline"):
            config = response.model_config.add(model_name=name)
            config.parameters.update(
                type=mode, streaming=str(mode == "online"), language_code=_languages(gateway, name)
            )
    await call.send(response)


def _languages(gateway: Gateway, name: str) -> str:
    """Return the language of a model, or `multi`."""
    options = options_of(name, gateway.model_aliases)
    if len(gateway.config.languages) == 1:
        return gateway.config.languages[0]
    try:
        RecognitionOptions.parse({**options, "language": "de"})
    except OptionError:
        return "en"
    return "multi"


async def recognize(call: RpcCall) -> None:
    gateway, request = call.gateway, await call.request()
    settings = settings_of(request.config, gateway.model_aliases, live=False)
    call.fields = settings.fields
    with gateway.file_of(call.caller, has_come=True):
        with gateway.uploads.taken(len(request.audio), call.caller.name, gateway.share):
            most_s = gateway.config.max_audio_s
            file = await asyncio.to_thread(_file_of, request.audio, settings, most_s)
            transcript = await _transcript(call, file, await _granted(call, settings, live=False))
        gateway.count_audio(call.caller, call.method.path, transcript.duration)
        call.warnings += transcript.warnings
        response = call.method.response(results=results_of(transcript, settings.options.nbest))
        await call.send(response)


async def _transcript(call: RpcCall, file: bytes, options: RecognitionOptions) -> Transcript:
    digest = await asyncio.to_thread(lambda: hashlib.sha256(file).hexdigest())
    request = recognition_request(file, options, call.request_id)
    work = call.gateway.servers.answer(lambda client: client.infer(request), digest)
    return await call.gateway.unless_broken_off(work)


async def _granted(
    call: RpcCall, settings: RecognitionSettings, *, live: bool
) -> RecognitionOptions:
    """Return the options of a request, without those that the server cannot do and may leave."""
    servers = call.gateway.servers
    options, lacking = await granted(servers, settings.options, settings.wishes, live=live)
    for option, name in lacking.items():
        call.warnings.append(f"{settings.fields[option]}: this server lacks {name}")
    return options


def _container_of(first: bytes, settings: RecognitionSettings) -> str | None:
    """Return FFmpeg's name of the container that audio begins with, None for raw samples.

    Raise an ApiError for another container than `encoding` says, or raw samples without a rate.
    """
    if settings.encoding in RAW:
        # Some clients say LINEAR_PCM of any file.
        container = named_container_of(first)
    else:
        container = container_of(first)
        wanted = CONTAINERS.get(settings.encoding, container)
        if container != wanted:
            begin = first[:8].hex(" ")
            message = (
                f"the audio is no {settings.encoding}, it begins with {begin}; without encoding"
            )
            raise invalid("encoding", f"encoding: {message}, its first bytes show what it is")
    if container is None and not settings.sample_rate:
        message = "sample_rate_hertz is needed for raw samples, which begin with no header; sent: 0"
        raise invalid("sample_rate_hertz", message)
    return container


def _file_of(audio: bytes, settings: RecognitionSettings, max_audio_s: float) -> bytes:
    """Return audio as a file: raw samples become a WAV; raise an ApiError if it is too long."""
    if not audio:
        raise invalid("audio", "audio takes a recording; sent: 0 bytes")
    if _container_of(audio[: num_first_bytes(audio[:16])], settings) is None:
        form = WAV_FORMS[RAW[settings.encoding or "LINEAR_PCM"]]
        audio = wav_header(settings.sample_rate, len(audio), settings.num_channels, *form) + audio
    check_length(io.BytesIO(audio), max_audio_s, "audio")
    return audio


async def stream(call: RpcCall) -> None:
    gateway = call.gateway
    with gateway.session_of(call.caller, call.method.path):
        async with gateway.servers.reserved() as client:
            await gateway.unless_broken_off(_StreamingRecognition(call).run(client))


class _StreamingRecognition:
    def __init__(self, call: RpcCall) -> None:
        self._call, self._gateway = call, call.gateway
        self._requests = call.requests()
        self._frames: LiveFrames | None = None
        self._first = b""
        """First bytes, until they show the format."""

    async def run(self, client: SessionClient) -> None:
        """Answer to the end, or raise the ApiError or ConchError that ends the stream."""
        config = await self._config()
        self._settings = settings = settings_of(
            config.config, self._gateway.model_aliases, live=True
        )
        self._call.fields = settings.fields
        self._rate = settings.sample_rate or DEFAULT_RATE
        results = LiveResults(settings.options.nbest, has_interim=config.interim_results)
        options = await _granted(self._call, settings, live=True)
        self._live = live_session_of(
            self._gateway, client, options, self._rate, self._call.request_id
        )
        async with AsyncExitStack() as self._stack, self._live:
            stops = await held(self._gateway, self._send(results), self._read(), self._live.close)
        if stops:
            raise overloaded("this gateway is about to stop; open another stream")

    async def _config(self) -> Message:
        idle_s = self._gateway.config.times.idle_s
        late = ApiError(408, f"no streaming_config came within {idle_s:g} s")
        async with within(idle_s, late):
            first = await anext(self._requests, None)
        if first is None or first.WhichOneof("streaming_request") != "streaming_config":
            content = "nothing" if first is None else first.WhichOneof("streaming_request")
            message = "the first message of a stream takes streaming_config"
            raise invalid("streaming_config", f"{message}; sent: {content}")
        self._check_runtime(first)
        return first.streaming_config

    @staticmethod
    def _check_runtime(request: Message) -> None:
        if request.runtime_config:
            names = ", ".join(sorted(request.runtime_config))
            message = "runtime_config takes nothing: options hold for the whole stream"
            raise invalid("runtime_config", f"{message}; sent: {names:.80}")

    async def _read(self) -> bool:
        """Read the audio of the client to its end; it then waits for its text."""
        async for request in self._requests:
            self._check_runtime(request)
            if request.WhichOneof("streaming_request") == "streaming_config":
                message = "streaming_config comes once, in the first message of a stream"
                raise invalid("streaming_config", message)
            await self._hear(request.audio_content)
        await self._hear(b"", ends=True)
        self._live.close()
        return True

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        async for samples in self._decoded(data, ends=ends):
            await self._live.feed(samples)

    async def _decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        if self._frames is None:
            self._first = data = self._first + data
            is_raw = self._settings.encoding in RAW
            needed = NUM_NAMED_BYTES if is_raw else num_first_bytes(data)
            if not data or (len(data) < needed and not ends):
                return
            self._first = b""
            is_file = _container_of(data, self._settings) is not None
            encoding = "container" if is_file else RAW[self._settings.encoding or "LINEAR_PCM"]
            frames = LiveFrames(encoding, self._rate)
            self._frames = await self._stack.enter_async_context(frames)
        async for samples in self._frames.decoded(data, ends=ends):
            yield samples

    def _note_problems(self, segments: Iterable[Segment]) -> None:
        """Keep problems of texts as warnings; raise that of an utterance without any text."""
        for segment in segments:
            if segment.error and not segment.text:
                error = from_wire(f"{segment.error_code}: {segment.error}")
                raise error or TranscriptionError(segment.error)
            if segment.error and segment.error not in self._call.warnings:
                self._call.warnings.append(segment.error)

    async def _send(self, results: LiveResults) -> None:
        updates = charged_updates(
            self._live, self._gateway, self._call.caller, self._call.method.path
        )
        async for update in updates:
            if (response := results.after(update)) is not None:
                await self._call.send(response)
            self._note_problems(item.segment for item in update.segments if item.is_final)
