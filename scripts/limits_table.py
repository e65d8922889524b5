"""Writes the list of limits in docs/guide/operating.md, and knows the test of each.

    python scripts/limits_table.py

The values are those of the code: its constants, and the defaults of its settings.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.audio.limits import MAX_PEAK, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from conch.audio.recording import MAX_CHANNELS, MAX_SPLIT_CHANNELS
from conch.bls.admission import OWN_TIMES
from conch.families.speakers import MOST_KNOWN_TEXT
from conch.families.whisper import MAX_BEAM, MAX_PROMPT
from conch.families.whisper.config import WINDOW_S
from conch.gateway import bodies, form, service, speak, voicing
from conch.gateway.config import GatewayConfig
from conch.gateway.doors import CLIENT_SECRETS, LISTEN
from conch.gateway.limits import KEY_SHARE, UPLOAD_SHARE
from conch.gateway.realtime import events
from conch.gateway.state import ARRIVING
from conch.recognition.config import RecognitionConfig
from conch.recognition.live.open_streams import MAX_SESSION
from conch.synthesis.service import SynthesisConfig
from conch.wire import limits
from conch.wire.hotwords import MAX_HOTWORD_LENGTH, MAX_HOTWORDS
from conch.wire.known_speakers import MAX_KNOWN, MAX_NAME
from conch.wire.named_models import MAX_POST
from conch.wire.replacements import MAX_FORM, MAX_RULES

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "guide" / "operating.md"
MARKED = re.compile(r"(<!-- limits -->\n).*?(<!-- /limits -->)", flags=re.S)
FIXED = "fixed"
ELSEWHERE = re.compile(r"`(--|(?!max_batch_size)\w+_)")
"""A parameter of a config.pbtxt, or a flag of the gateway."""
STREAMS = "tests/recognition/live/test_stream_ends.py"
HOSTILE = "tests/gateway/test_hostile.py"
AUDIO = "tests/audio/test_limits.py"


@dataclass(frozen=True, slots=True)
class Limit:
    """A line of the list."""

    what: str
    value: str
    set_by: str
    test: str
    """Its test: `file::function`. The list does not show it."""
    has_page: bool = False
    """Whether another page of the guide has it."""


def limits_of_speech() -> list[Limit]:
    """Return the limits of the entry points."""
    config = RecognitionConfig()
    path = ROOT / "bls_models" / "speech" / "config.pbtxt"
    speech = text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
    recognizer = "tests/recognition/test_recognizer.py"
    admission = "tests/bls/test_admission.py"
    passes = "tests/recognition/live/test_second_passes.py"
    return [
        Limit(
            "requests at once",
            f"{config.max_requests_in_flight}",
            "`max_requests_in_flight`",
            f"{recognizer}::test_a_request_above_the_limit_is_refused_and_the_others_go_on",
        ),
        Limit(
            "bytes of audio as sent, live chunks included",
            f"{config.max_bytes_in_flight / 2**30:g} GiB",
            "`max_bytes_in_flight`; a recording that is alone may have more. A quarter is saved "
            "for recordings, and another one for live chunks",
            f"{admission}::test_requests_and_bytes_have_limits_of_their_own",
        ),
        Limit(
            "audio of all recordings at once, and of one request",
            f"{config.max_audio_in_flight_s / 3600:g} h",
            "`max_audio_in_flight_s`; others wait for room, and a request with more is wrong",
            f"{admission}::test_at_the_limit_a_request_begins_and_beyond_it_is_wrong",
        ),
        Limit(
            "wait of a recording behind others",
            f"{config.max_wait_s:g} s, or {OWN_TIMES} times its own work",
            "`max_wait_s`, `deadline_ms` of the request",
            f"{admission}::test_who_would_wait_too_long_is_refused_at_once_and_told_when_to_come",
        ),
        Limit(
            "text to speak, streamed; in one answer",
            f"{SynthesisConfig().max_text:,} characters; {SynthesisConfig().max_whole_text:,}",
            "`max_text`, `max_whole_text` of `synthesis`",
            "tests/synthesis/test_speaking.py::"
            "test_a_text_that_cannot_be_spoken_is_an_error_of_the_request",
        ),
        Limit(
            "calls of recordings in flight at a component",
            f"{config.max_encoder_calls} and {config.max_decoder_calls}",
            "`max_encoder_calls`, `max_decoder_calls`; one recording takes at most half and a "
            "quarter",
            "tests/bls/test_concurrency.py::"
            "test_a_recording_does_not_wait_behind_the_segments_of_another",
        ),
        Limit(
            "rows of a request",
            f"1 to {speech.max_batch_size}",
            "`max_batch_size` of `speech`",
            "tests/integration/test_closed.py::test_a_request_has_so_many_rows_at_most",
        ),
        Limit(
            "length of a row",
            f"{config.max_audio_s / 3600:g} h",
            "`max_audio_s`",
            f"{AUDIO}::test_the_longest_audio",
        ),
        Limit(
            "segments of a row at once",
            f"{config.max_segments_in_flight}",
            "`max_segments_in_flight`; others wait",
            f"{recognizer}::test_no_more_segments_are_in_flight_than_the_limit",
        ),
        Limit(
            "channels of a file",
            f"{MAX_CHANNELS}; to split {MAX_SPLIT_CHANNELS}",
            FIXED,
            f"{AUDIO}::test_the_most_channels",
            has_page=True,
        ),
        Limit(
            "sample rate",
            f"{MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz",
            FIXED,
            f"{AUDIO}::test_the_lowest_and_the_highest_rate",
            has_page=True,
        ),
        Limit("value of a sample", f"±{MAX_PEAK:g}", FIXED, f"{AUDIO}::test_the_largest_sample"),
        Limit(
            "live streams at once",
            f"{config.max_streams}",
            "`max_streams`, and `max_candidate_sequences` of both streaming components: keep them "
            "equal",
            f"{STREAMS}::test_limits",
        ),
        Limit(
            "length of a live stream",
            f"{config.max_stream_s / 3600:g} h",
            "`max_stream_s`",
            f"{STREAMS}::test_limits",
        ),
        Limit(
            "length of a chunk",
            f"{config.max_chunk_s:g} s",
            "`max_chunk_s`",
            f"{STREAMS}::test_a_bad_chunk_fails_alone_and_the_stream_goes_on",
        ),
        Limit(
            "a live stream without a chunk",
            f"{config.stream_ttl_s:g} s",
            "`stream_ttl_s`",
            f"{STREAMS}::test_a_stream_without_chunks_expires",
        ),
        Limit(
            "audio in chunks of a stream that wait",
            f"{config.max_waiting_s:g} s",
            "`max_waiting_s`; a chunk counts as 0.1 s at least",
            f"{STREAMS}::test_too_much_audio_that_waits_ends_the_stream",
        ),
        Limit(
            "passes over live utterances at once",
            f"{config.max_passes_in_flight}",
            "`max_passes_in_flight`; others wait",
            f"{passes}::test_a_second_pass_that_finds_no_place_in_time_is_left_out",
        ),
        Limit(
            "second passes of a stream at once",
            f"{config.max_second_passes}",
            "`max_second_passes`; one more is left out, or waits if the stream is ahead of its "
            "speaker",
            f"{passes}::test_no_more_second_passes_are_under_way_than_the_limit",
        ),
        Limit(
            "`session` of a live stream",
            f"{MAX_SESSION} characters",
            FIXED,
            f"{STREAMS}::test_a_session_is_not_longer_than_an_id",
        ),
    ]


def limits_of_options() -> list[Limit]:
    """Return the limits of what a request asks for."""
    options = "tests/wire/test_options.py"
    return [
        Limit(
            "options of a request",
            f"{limits.MAX_PARAMETERS}",
            FIXED,
            f"{options}::test_a_request_has_so_many_options_at_most",
        ),
        Limit(
            "a text in an option",
            f"{limits.MAX_TEXT} characters",
            FIXED,
            f"{options}::test_a_text_has_so_many_characters_at_most",
        ),
        Limit(
            "hotwords",
            f"{MAX_HOTWORDS}, of {MAX_HOTWORD_LENGTH} characters each and "
            f"{limits.MAX_HOTWORD_TEXT} together",
            FIXED,
            "tests/families/attention/test_hotwords.py::"
            "test_a_list_that_cannot_be_is_refused_before_anything_is_called",
        ),
        Limit(
            "rules of `replace`",
            f"{MAX_RULES}, of forms of {MAX_FORM} characters",
            FIXED,
            "tests/wire/test_replacements.py::test_as_many_rules_as_allowed",
        ),
        Limit(
            "models of `post`",
            f"{MAX_POST}",
            FIXED,
            "tests/wire/test_named_models.py::test_there_are_at_most_so_many",
            has_page=True,
        ),
        Limit(
            "`known_speakers`",
            f"{MAX_KNOWN}; names of {MAX_NAME} characters; {MOST_KNOWN_TEXT / 1e6:g} million "
            "characters",
            FIXED,
            "tests/families/speakers/test_labels.py::test_an_entry_that_cannot_be_read_is_named",
        ),
        Limit(
            "`prompt`",
            f"{MAX_PROMPT} characters",
            FIXED,
            f"{options}::test_a_wrong_option_is_named_with_what_it_takes_and_what_was_sent",
            has_page=True,
        ),
        Limit(
            "hypotheses of a segment that Whisper searches or scores",
            f"{MAX_BEAM}",
            FIXED,
            f"{options}::test_whisper_scores_so_many_texts_of_a_segment_at_most",
            has_page=True,
        ),
        Limit(
            "what an error repeats of a name or value",
            f"{limits.MAX_SHOWN} characters",
            FIXED,
            f"{options}::test_nor_is_a_long_name",
        ),
    ]


def limits_of_components() -> list[Limit]:
    """Return the limits of one call of a component."""
    whisper = "tests/families/whisper/test_decoder.py::test_what_makes_a_call_dear_is_limited"
    return [
        Limit(
            "component: audio of a call of `vad` and `ctc_streaming_encoder`, frames of a decoder",
            f"{limits.MAX_STEP_S:g} s",
            FIXED,
            "tests/families/silero/test_vad.py::test_a_waveform_is_two_minutes_at_most",
        ),
        Limit(
            "component: segment of `ctc_encoder`",
            f"{limits.MAX_SEGMENT_S:g} s",
            FIXED,
            "tests/families/ctc/test_encoder.py::test_the_longest_segment",
        ),
        Limit("component: segment of Whisper", f"{WINDOW_S:g} s", FIXED, whisper),
        Limit(
            "component: beam, n-best list and texts to score",
            f"{limits.MAX_TEXTS}; of Whisper {MAX_BEAM}",
            FIXED,
            whisper,
        ),
        Limit(
            "component: a text to score or align",
            f"{limits.MAX_TEXT} bytes",
            FIXED,
            "tests/families/ngram/test_rescorer.py::test_texts_are_limited",
        ),
    ]


def limits_of_gateway() -> list[Limit]:
    """Return the limits that the gateway checks before it calls a server."""
    config = GatewayConfig()
    times = config.times
    return [
        Limit(
            "gateway: a file",
            f"{config.max_body_mb:g} MB, decompressed if the body is gzip",
            "`--max-body-mb`",
            f"{HOSTILE}::test_a_file_has_its_limit",
        ),
        Limit(
            "gateway: all uploads at once",
            f"{UPLOAD_SHARE:.0%} of the memory",
            "`--max-upload-mb`; one more is refused before it is read",
            f"{HOSTILE}::test_an_upload_without_room_is_refused_before_it_is_read",
        ),
        Limit(
            "gateway: fields of a form",
            f"{form.MAX_FIELDS}",
            FIXED,
            f"{HOSTILE}::test_a_form_has_its_limits",
        ),
        Limit(
            "gateway: a field; its name; all fields",
            f"{form.MAX_FIELD_BYTES >> 10} KiB; {form.MAX_NAME} characters; "
            f"{form.MAX_FORM_BYTES >> 10} KiB",
            FIXED,
            f"{HOSTILE}::test_a_form_has_its_limits",
        ),
        Limit(
            "gateway: known speakers with audio, in a form",
            f"{form.MAX_AUDIO_BYTES / form.MB:g} MB",
            FIXED,
            f"{HOSTILE}::test_a_form_has_its_limits",
            has_page=True,
        ),
        Limit(
            "gateway: an upload without a byte",
            f"{times.idle_s:g} s, then at least {form.LEAST_BYTES_PER_S} bytes a second, and so "
            f"many that it ends within {times.upload_s:g} s",
            FIXED,
            f"{HOSTILE}::test_half_sent_uploads_are_given_up",
        ),
        Limit(
            "gateway: uploads on their way",
            f"{ARRIVING} for each file at once",
            FIXED,
            f"{HOSTILE}::test_uploads_that_do_not_come_keep_no_place_from_the_others",
        ),
        Limit(
            "gateway: an answer that its client does not read",
            f"{times.send_s:g} s for each part; a whole one 1 s more for each "
            f"{bodies.LEAST_BYTES_PER_S // 1000} kB",
            FIXED,
            "tests/gateway/test_bodies.py::test_a_client_that_does_not_read_is_broken_off",
        ),
        Limit(
            "gateway: one of several keys",
            f"{KEY_SHARE:.0%} of the places and of the bytes of uploads",
            FIXED,
            "tests/gateway/test_state.py::"
            "test_one_of_several_keys_has_its_share_of_places_and_of_room",
            has_page=True,
        ),
        Limit(
            "gateway: connections",
            f"file descriptors less {service.SPARE}",
            "`ulimit -Hn`",
            f"{HOSTILE}::test_connections_beyond_the_file_descriptors_are_ended_and_the_others_served",
        ),
        Limit(
            "gateway: a connection without a whole request",
            f"{times.keep_alive_s:g} s",
            FIXED,
            f"{HOSTILE}::test_a_connection_without_a_whole_request_is_closed",
        ),
        Limit(
            "gateway: headers of a request",
            f"128, of {service.MAX_HEADER_BYTES >> 10} KiB each",
            FIXED,
            f"{HOSTILE}::test_a_request_has_so_many_headers_at_most",
        ),
        Limit(
            "gateway: JSON",
            f"{bodies.MAX_DEPTH} deep; {bodies.MAX_MARKS} commas, lists and objects",
            FIXED,
            f"{HOSTILE}::test_json_has_a_depth_and_a_size",
        ),
        Limit(
            "gateway: JSON body of `/v1/realtime/client_secrets`",
            f"{CLIENT_SECRETS.max_message_bytes >> 10} KiB in {times.settings_s:g} s",
            FIXED,
            f"{HOSTILE}::test_a_body_of_settings_has_its_limit",
        ),
        Limit(
            "gateway: a frame of `/v1/conch/listen`",
            f"less than {LISTEN.max_message_bytes >> 20} MiB",
            FIXED,
            "tests/gateway/test_listen_session.py::test_a_frame_that_is_too_large_ends_the_session",
            has_page=True,
        ),
        Limit(
            "gateway: text of `/v1/conch/speak` that waits",
            f"{voicing.MAX_WAITING} characters, {speak.MAX_FLUSHES} flushes",
            FIXED,
            "tests/gateway/test_speak.py::test_too_many_flushes_end_the_session",
            has_page=True,
        ),
        Limit(
            "gateway: audio of an event of `/v1/realtime`",
            f"{events.MAX_AUDIO_BYTES >> 20} MiB",
            FIXED,
            "tests/gateway/realtime/test_session.py::test_the_largest_append_fits_into_a_message",
            has_page=True,
        ),
        Limit(
            "gateway: audio of a live session that waits, before more is read",
            f"{config.max_backlog_s:g} s",
            FIXED,
            "tests/gateway/realtime/test_session.py::test_audio_that_comes_faster_than_it_is_heard_waits_and_is_finished",
        ),
    ]


def all_limits() -> list[Limit]:
    """Return all limits, in their order."""
    return [
        *limits_of_speech(),
        *limits_of_options(),
        *limits_of_components(),
        *limits_of_gateway(),
    ]


def table() -> str:
    """Return a line per limit that clients meet and that no other page of the guide lists.

    docs/guide/configuration.md has those that are parameters, docs/guide/gateway.md those that are
    flags.
    """
    of_server = _lines(*limits_of_speech(), *limits_of_options())
    of_gateway = _lines(*limits_of_gateway())
    return f"{of_server}\nOf the gateway:\n\n{of_gateway}"


def _lines(*shown: Limit) -> str:
    lines = []
    for item in shown:
        if item.has_page or ELSEWHERE.match(item.set_by):
            continue
        what = item.what.removeprefix("gateway: ")
        by = "" if item.set_by == FIXED else f" ({item.set_by})"
        lines.append(f"- {what}: {item.value}{by}\n")
    return "".join(lines)


def with_table(text: str) -> str:
    """Return the document with the list as it is now."""
    return MARKED.sub(lambda marks: marks[1] + table() + marks[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
