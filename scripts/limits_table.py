"""Writes the list of limits in docs/guide/operating.md, and knows the test of each.

    python scripts/limits_table.py

The values are those of the code: its constants, and the defaults of its settings.
"""

import re
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.audio.limits import MAX_PEAK
from conch.families.speakers import MOST_KNOWN_TEXT
from conch.gateway import bodies, form, service
from conch.gateway.config import GatewayConfig
from conch.gateway.doors import CLIENT_SECRETS
from conch.gateway.state import ARRIVING
from conch.recognition.live.open_streams import MAX_SESSION
from conch.wire import limits
from conch.wire.hotwords import MAX_HOTWORD_LENGTH, MAX_HOTWORDS
from conch.wire.known_speakers import MAX_KNOWN, MAX_NAME
from conch.wire.replacements import MAX_FORM, MAX_RULES

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "guide" / "operating.md"
MARKED = re.compile(r"(<!-- limits -->\n).*?(<!-- /limits -->)", flags=re.S)
LIMIT = re.compile(r"^(\S.*(?:\n\S.*)*)\n    (\S+)$", re.M)
"""A limit, and below it the test that meets it: `file::function`."""

SPEECH = text_format.Parse(
    (ROOT / "bls_models" / "speech" / "config.pbtxt").read_text("utf-8"),
    model_config_pb2.ModelConfig(),
)
OF_SERVER = f"""
rows of a request: 1 to {SPEECH.max_batch_size} (`max_batch_size` of `speech`)
    tests/integration/test_closed.py::test_a_request_has_so_many_rows_at_most
value of a sample: ±{MAX_PEAK:g}
    tests/audio/test_limits.py::test_the_largest_sample
`session` of a live stream: {MAX_SESSION} characters
    tests/recognition/live/test_stream_ends.py::test_a_session_is_not_longer_than_an_id
options of a request: {limits.MAX_PARAMETERS}
    tests/wire/test_options.py::test_a_request_has_so_many_options_at_most
a text in an option: {limits.MAX_TEXT} characters
    tests/wire/test_options.py::test_a_text_has_so_many_characters_at_most
hotwords: {MAX_HOTWORDS}, of {MAX_HOTWORD_LENGTH} characters each and {limits.MAX_HOTWORD_TEXT}
together
    tests/families/attention/test_hotwords.py::test_a_list_that_cannot_be_is_refused_before_anything_is_called
rules of `replace`: {MAX_RULES}, of forms of {MAX_FORM} characters
    tests/wire/test_replacements.py::test_as_many_rules_as_allowed
`known_speakers`: {MAX_KNOWN}; names of {MAX_NAME} characters; {MOST_KNOWN_TEXT / 1e6:g} million
characters
    tests/families/speakers/test_labels.py::test_an_entry_that_cannot_be_read_is_named
what an error repeats of a name or value: {limits.MAX_SHOWN} characters
    tests/wire/test_options.py::test_nor_is_a_long_name
"""
GATEWAY = GatewayConfig()
TIMES = GATEWAY.times
OF_GATEWAY = f"""
fields of a form: {form.MAX_FIELDS}
    tests/gateway/test_hostile.py::test_a_form_has_so_many_fields_at_most
a field; its name; all fields: {form.MAX_FIELD_BYTES >> 10} KiB; {form.MAX_NAME} characters;
{form.MAX_FORM_BYTES >> 10} KiB
    tests/gateway/test_hostile.py::test_all_fields_together_have_theirs
an upload without a byte: {TIMES.idle_s:g} s, then at least {form.LEAST_BYTES_PER_S} bytes a second,
and so many that it ends within {TIMES.upload_s:g} s
    tests/gateway/test_hostile.py::test_half_sent_uploads_are_given_up
uploads on their way: {ARRIVING} for each file at once
    tests/gateway/test_hostile.py::test_uploads_that_do_not_come_keep_no_place_from_the_others
an answer that its client does not read: {TIMES.send_s:g} s for each part; a whole one 1 s more for
each {bodies.LEAST_BYTES_PER_S // 1000} kB
    tests/gateway/test_bodies.py::test_a_client_that_does_not_read_is_broken_off
connections: file descriptors less {service.SPARE} (`ulimit -Hn`)
    tests/gateway/test_hostile.py::test_connections_beyond_the_file_descriptors_are_ended_and_the_others_served
a connection without a whole request: {TIMES.keep_alive_s:g} s
    tests/gateway/test_hostile.py::test_a_connection_without_a_whole_request_is_closed
headers of a request: 128, of {service.MAX_HEADER_BYTES >> 10} KiB each
    tests/gateway/test_hostile.py::test_a_request_has_so_many_headers_at_most
JSON: {bodies.MAX_DEPTH} deep; {bodies.MAX_MARKS} commas, lists and objects
    tests/gateway/test_hostile.py::test_json_has_a_depth_and_a_size
JSON body of `/v1/realtime/client_secrets`: {CLIENT_SECRETS.max_message_bytes >> 10} KiB in
{TIMES.settings_s:g} s
    tests/gateway/test_hostile.py::test_a_body_of_settings_has_its_limit
audio of a live session that waits, before more is read: {GATEWAY.max_backlog_s:g} s
    tests/gateway/realtime/test_session.py::test_audio_that_is_sent_at_once_is_heard_at_the_pace_of_the_server
"""
ELSEWHERE = """
requests at once
    tests/recognition/test_recognizer.py::test_a_request_above_the_limit_is_refused_and_the_others_go_on
bytes of audio as sent, live chunks included
    tests/bls/test_admission.py::test_requests_and_bytes_have_limits_of_their_own
audio of all recordings at once, and of one request
    tests/bls/test_admission.py::test_at_the_limit_a_request_begins_and_beyond_it_is_wrong
wait of a recording behind others
    tests/bls/test_admission.py::test_who_would_wait_too_long_is_refused_at_once_and_told_when_to_come
text to speak, streamed, and in one answer
    tests/synthesis/test_speaking.py::test_a_text_that_cannot_be_spoken_is_an_error_of_the_request
calls of recordings in flight at a component
    tests/bls/test_concurrency.py::test_a_recording_does_not_wait_behind_the_segments_of_another
length of a row
    tests/audio/test_limits.py::test_the_longest_audio
segments of a row at once
    tests/recognition/test_recognizer.py::test_no_more_segments_are_in_flight_than_the_limit
channels of a file
    tests/audio/test_limits.py::test_the_most_channels
sample rate
    tests/audio/test_limits.py::test_the_lowest_and_the_highest_rate
live streams at once, and the length of one
    tests/recognition/live/test_stream_ends.py::test_limits
length of a chunk
    tests/recognition/live/test_stream_ends.py::test_a_bad_chunk_fails_alone_and_the_stream_goes_on
a live stream without a chunk
    tests/recognition/live/test_stream_ends.py::test_a_stream_without_chunks_expires
audio in chunks of a stream that wait
    tests/recognition/live/test_stream_ends.py::test_too_much_audio_that_waits_ends_the_stream
passes over live utterances at once
    tests/recognition/live/test_second_passes.py::test_a_second_pass_that_finds_no_place_in_time_is_left_out
second passes of a stream at once
    tests/recognition/live/test_second_passes.py::test_no_more_second_passes_are_under_way_than_the_limit
models of `post`
    tests/wire/test_named_models.py::test_there_are_at_most_so_many
`prompt`
    tests/wire/test_options.py::test_a_wrong_option_is_named_with_what_it_takes_and_what_was_sent
hypotheses of a segment that Whisper searches or scores
    tests/wire/test_options.py::test_whisper_scores_so_many_texts_of_a_segment_at_most
component: audio of a call of `vad` and `ctc_streaming_encoder`, frames of a decoder
    tests/families/silero/test_vad.py::test_a_waveform_is_two_minutes_at_most
component: segment of `ctc_encoder`
    tests/families/ctc/test_encoder.py::test_the_longest_segment
component: segment of Whisper; beam, n-best list and texts to score
    tests/families/whisper/test_decoder.py::test_what_makes_a_call_dear_is_limited
component: a text to score or align
    tests/families/ngram/test_rescorer.py::test_texts_are_limited
gateway: a file
    tests/gateway/test_hostile.py::test_a_file_has_its_limit
gateway: all uploads at once
    tests/gateway/test_hostile.py::test_an_upload_without_room_is_refused_before_it_is_read
gateway: known speakers with audio, in a form
    tests/gateway/test_hostile.py::test_fields_with_audio_together_have_theirs
gateway: one of several keys
    tests/gateway/test_state.py::test_one_of_several_keys_has_its_share_of_places_and_of_room
gateway: a frame of `/v1/conch/listen`
    tests/gateway/test_listen_session.py::test_a_frame_that_is_too_large_ends_the_session
gateway: text of `/v1/conch/speak` that waits
    tests/gateway/test_speak.py::test_too_many_flushes_end_the_session
gateway: audio of an event of `/v1/realtime`
    tests/gateway/realtime/test_session.py::test_the_largest_append_fits_into_a_message
"""
"""Limits whose values stand on other pages: docs/guide/configuration.md has those that are
parameters, docs/guide/gateway.md those that are flags."""


def all_tests() -> list[str]:
    return [test for _, test in LIMIT.findall(OF_SERVER + OF_GATEWAY + ELSEWHERE)]


def with_table(text: str) -> str:
    """Return the document with the list as it is now."""
    of_server, of_gateway = map(_lines, (OF_SERVER, OF_GATEWAY))
    table = f"{of_server}\nOf the gateway:\n\n{of_gateway}"
    return MARKED.sub(lambda marks: marks[1] + table + marks[2], text)


def _lines(listed: str) -> str:
    return "".join(f"- {limit.replace(chr(10), ' ')}\n" for limit, _ in LIMIT.findall(listed))


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
