"""Riva's `RecognitionConfig` as options of Conch. Pure.

Every field is an option, or an error that names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conch.audio.limits import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from conch.client import OptionValue
from conch.families import rewriters
from conch.gateway.errors import invalid, named, wrong
from conch.gateway.models import options_of
from conch.gateway.option_fields import phrase, wishes_among
from conch.gateway.riva.protocol import ENCODINGS, Message
from conch.wire.errors import OptionError
from conch.wire.languages import code_of
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options

RAW = {"LINEAR_PCM": "pcm16", "MULAW": "mulaw", "ALAW": "alaw"}
"""Encodings of raw samples, with the gateway's names."""
CONTAINERS = {"FLAC": "flac", "OGGOPUS": "ogg"}
"""Encodings with a container, with FFmpeg's names of these."""
PROFANITY_FILTER = "profanity_filter"
"""Text step behind the field of this name: a model that an operator adds."""
MOST_CHANNELS = 64
"""Most channels, as of the server: it mixes as many, and splits fewer."""
ANY_LANGUAGE = ("", "auto", "multi")
_ENDPOINTING = {
    "start_history": "vad_min_speech_ms",
    "start_threshold": "vad_threshold",
    "stop_history": "endpoint_silence_ms",
    "stop_threshold": "",
    "stop_history_eou": "",
    "stop_threshold_eou": "",
}
"""Options by the fields of `endpointing_config`; empty for those without any."""


@dataclass(frozen=True, slots=True)
class RecognitionSettings:
    """The options and the audio format that a `RecognitionConfig` sets."""

    options: RecognitionOptions
    fields: Mapping[str, str]
    """The fields that have set options, by option."""
    wishes: Mapping[str, str]
    """Components, each with an option that is left out if the server lacks it."""
    encoding: str
    """Name of the encoding; empty if the first bytes show it."""
    sample_rate: int
    """Hz of raw samples; 0 if it is not known."""
    num_channels: int
    """Channels of raw samples."""


def settings_of(config: Message, aliases: Mapping[str, str], *, live: bool) -> RecognitionSettings:
    """Return what a `RecognitionConfig` requests; raise an ApiError that names a wrong field."""
    encoding = encoding_of(config.encoding)
    rate, channels = config.sample_rate_hertz, config.audio_channel_count
    if rate and not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        takes = f"{MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz, or 0 for that of the file"
        raise wrong("sample_rate_hertz", takes, rate)
    most = 1 if live and encoding in RAW else MOST_CHANNELS
    if not 0 <= channels <= most:
        why = " with raw samples of a stream" if most == 1 else ""
        raise wrong("audio_channel_count", f"0 to {most}{why}", channels)
    by_option = {option: (value, field) for field, option, value in _chosen(config, live=live)}
    fields = {option: field for option, (_, field) in by_option.items()}
    try:
        own = options_of_text(dict(config.custom_configuration), all_options())
        if config.profanity_filter:
            steps = str(own.get("post", "")), PROFANITY_FILTER
            own["post"] = ",".join(filter(None, steps))
            fields["post"] = "profanity_filter"
        chosen = {
            **options_of(config.model, aliases),
            **{option: value for option, (value, _) in by_option.items()},
            **own,
        }
        options = RecognitionOptions.parse(chosen, live=live)
    except OptionError as error:
        raise named(error, fields) from None
    # itn is the default of a field that only few clients set.
    wishes = wishes_among([name for name in fields if name not in own], options)
    return RecognitionSettings(options, fields, wishes, encoding, rate, max(1, channels))


def encoding_of(number: int) -> str:
    """Return the name of an `encoding`, empty for none; raise an ApiError for an unknown one."""
    if number not in ENCODINGS:
        known = ", ".join(f"{name} ({known})" for known, name in ENCODINGS.items())
        raise wrong("encoding", known, number)
    return ENCODINGS[number] if number else ""


def _chosen(config: Message, *, live: bool) -> Iterator[tuple[str, str, OptionValue]]:
    """Yield the fields that set options, with option and value."""
    if config.language_code.strip().lower() not in ANY_LANGUAGE:
        yield "language_code", "language", code_of(config.language_code)
    if config.max_alternatives not in (0, 1):
        yield "max_alternatives", "nbest", config.max_alternatives
    if hotwords := ",".join(_hotwords(config.speech_contexts)):
        yield "speech_contexts", "hotwords", hotwords
    diarization = config.diarization_config
    if diarization.enable_speaker_diarization:
        yield "diarization_config", "speakers", "auto"
        if most := diarization.max_speaker_count:
            yield "diarization_config.max_speaker_count", "max_speakers", most
    if config.enable_word_time_offsets or diarization.enable_speaker_diarization:
        yield "enable_word_time_offsets", "word_timestamps", True
    if config.enable_automatic_punctuation:
        yield "enable_automatic_punctuation", "punctuate", True
    if not config.verbatim_transcripts and "itn" in rewriters():
        yield "verbatim_transcripts", "itn", True
    if config.enable_separate_recognition_per_channel:
        field = "enable_separate_recognition_per_channel"
        if live:
            raise invalid(field, f"{field} takes false in a stream, which is mono; sent: true")
        yield field, "channels", "split"
    sent = config.endpointing_config
    for name, option in _ENDPOINTING.items():
        if not sent.HasField(name):
            continue
        field, value = f"endpointing_config.{name}", getattr(sent, name)
        if not option:
            takes = ", ".join(key for key, known in _ENDPOINTING.items() if known)
            message = f"{field} has no counterpart here: leave it out; sent: {value:g}"
            raise invalid(field, f"{message}; endpointing_config takes {takes}")
        yield field, option, value


def _hotwords(contexts: Message) -> list[str]:
    """Return phrases with their weights; a boost of 0 is one that was not sent."""
    return [
        f"{plain}:{context.boost:g}" if context.boost else plain
        for context in contexts
        for sent in context.phrases
        if (plain := phrase(sent))
    ]
