"""Writes the limits in docs/guide/operating.md and docs/notes/reliability.md; knows their tests.

    python scripts/limits_table.py

The guide has those of a request, and the notes what else grows with what clients send. The values
are those of the code: its constants, and the defaults of its settings.
"""

import re
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from conch.audio import intake, worker
from conch.audio.limits import MAX_PEAK
from conch.bls.failover import REMEMBER_S
from conch.bls.relay import PATIENCE_S
from conch.client.poison import MAX_NAMES, REMEMBERED_S
from conch.decoding.fusion import _CACHED
from conch.families.speakers import MOST_KNOWN_TEXT
from conch.families.speakers.enrolment import AT_ONCE, MOST_S
from conch.gateway import (
    bodies,
    doors,
    form,
    format,
    keys,
    listen_messages,
    live_session,
    service,
    state,
)
from conch.gateway.config import GatewayConfig
from conch.gateway.realtime.secrets import LIFETIMES_S
from conch.gateway.riva import calls
from conch.gateway.riva.server import MAX_CALLS
from conch.gateway.wyoming.connection import CONNECTIONS_A_SESSION
from conch.launcher.logs import TAIL_LINES
from conch.recognition.live.open_streams import MAX_SESSION
from conch.session.joined_streams import MAX_KEPT_S
from conch.wire import limits
from conch.wire.hotwords import MAX_HOTWORD_LENGTH, MAX_HOTWORDS
from conch.wire.known_speakers import MAX_KNOWN, MAX_NAME
from conch.wire.replacements import MAX_FORM, MAX_RULES

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "docs" / "guide" / "operating.md", ROOT / "docs" / "notes" / "reliability.md")
MARKED = re.compile(r"(<!-- (limits|bounds) -->\n).*?(<!-- /\2 -->)", flags=re.S)
LIMIT = re.compile(r"^(- .*(?:\n(?!- )\S.*)*)\n    (\S+)$", re.M)
"""A limit, and below it the test that meets it: `file::function`."""

SPEECH = text_format.Parse(
    (ROOT / "bls_models" / "speech" / "config.pbtxt").read_text("utf-8"),
    model_config_pb2.ModelConfig(),
)
OF_SERVER = f"""
- rows of a request: 1 to {SPEECH.max_batch_size} (`max_batch_size` of `speech`)
    tests/integration/test_closed.py::test_a_request_has_so_many_rows_at_most
- value of a sample: ±{MAX_PEAK:g}
    tests/audio/test_limits.py::test_the_largest_sample
- `session` of a live stream: {MAX_SESSION} characters
    tests/recognition/live/test_stream_ends.py::test_a_session_is_not_longer_than_an_id
- options of a request: {limits.MAX_PARAMETERS}
    tests/wire/test_options.py::test_a_request_has_so_many_options_at_most
- a text in an option: {limits.MAX_TEXT} characters
    tests/wire/test_options.py::test_a_text_has_so_many_characters_at_most
- hotwords: {MAX_HOTWORDS}, of {MAX_HOTWORD_LENGTH} characters each and {limits.MAX_HOTWORD_TEXT}
together
    tests/families/attention/test_hotwords.py::test_a_list_that_cannot_be_is_refused_before_anything_is_called
- rules of `replace`: {MAX_RULES}, of forms of {MAX_FORM} characters
    tests/wire/test_replacements.py::test_as_many_rules_as_allowed
- `known_speakers`: {MAX_KNOWN}; names of {MAX_NAME} characters; {MOST_KNOWN_TEXT / 1e6:g} million
characters
    tests/families/speakers/test_labels.py::test_an_entry_that_cannot_be_read_is_named
- what an error repeats of a name or value: {limits.MAX_SHOWN} characters
    tests/wire/test_options.py::test_nor_is_a_long_name
"""
GATEWAY = GatewayConfig()
TIMES, COMING = GATEWAY.times, state.ARRIVING * GATEWAY.max_files
OF_GATEWAY = f"""
- fields of a form: {form.MAX_FIELDS}
    tests/gateway/test_hostile.py::test_a_form_has_its_limits
- a field; its name; all fields: {form.MAX_FIELD_BYTES >> 10} KiB; {form.MAX_NAME} characters;
{form.MAX_FORM_BYTES >> 10} KiB
    tests/gateway/test_hostile.py::test_a_form_has_its_limits
- an upload without a byte: {TIMES.idle_s:g} s, then at least {form.LEAST_BYTES_PER_S} bytes a
second, and so many that it ends within {TIMES.upload_s:g} s
    tests/gateway/test_hostile.py::test_half_sent_uploads_are_given_up
- uploads on their way: {state.ARRIVING} for each file at once
    tests/gateway/test_hostile.py::test_uploads_that_do_not_come_keep_no_place_from_the_others
- an answer that its client does not read: {TIMES.send_s:g} s for each part; a whole one 1 s more
for each {bodies.LEAST_BYTES_PER_S // 1000} kB
    tests/gateway/test_bodies.py::test_a_client_that_does_not_read_is_broken_off
- connections: file descriptors less {service.SPARE} (`ulimit -Hn`)
    tests/gateway/test_hostile.py::test_connections_beyond_the_file_descriptors_are_ended_and_the_others_served
- a connection without a whole request: {TIMES.keep_alive_s:g} s
    tests/gateway/test_hostile.py::test_a_connection_without_a_whole_request_is_closed
- headers of a request: 128, of {service.MAX_HEADER_BYTES >> 10} KiB each
    tests/gateway/test_hostile.py::test_a_request_has_so_many_headers_at_most
- JSON: {bodies.MAX_DEPTH} deep; {bodies.MAX_MARKS} commas, lists and objects
    tests/gateway/test_hostile.py::test_json_has_a_depth_and_a_size
- JSON body of `/v1/realtime/client_secrets`: {doors.CLIENT_SECRETS.max_message_bytes >> 10} KiB in
{TIMES.settings_s:g} s
    tests/gateway/test_hostile.py::test_a_body_of_settings_has_its_limit
- audio of a live session that waits, before more is read: {GATEWAY.max_backlog_s:g} s
    tests/gateway/realtime/test_session.py::test_audio_that_comes_faster_than_it_is_heard_waits_and_is_finished
"""
ELSEWHERE = """
- requests at once
    tests/recognition/test_recognizer.py::test_a_request_above_the_limit_is_refused_and_the_others_go_on
- bytes of audio as sent, live chunks included
    tests/bls/test_admission.py::test_requests_and_bytes_have_limits_of_their_own
- audio of all recordings at once, and of one request
    tests/bls/test_admission.py::test_at_the_limit_a_request_begins_and_beyond_it_is_wrong
- wait of a recording behind others
    tests/bls/test_admission.py::test_who_would_wait_too_long_is_refused_at_once_and_told_when_to_come
- text to speak, streamed, and in one answer
    tests/synthesis/test_speaking.py::test_a_text_that_cannot_be_spoken_is_an_error_of_the_request
- calls of recordings in flight at a component
    tests/bls/test_concurrency.py::test_a_recording_does_not_wait_behind_the_segments_of_another
- length of a row
    tests/audio/test_limits.py::test_the_longest_audio
- segments of a row at once
    tests/recognition/test_recognizer.py::test_no_more_segments_are_in_flight_than_the_limit
- channels of a file
    tests/audio/test_limits.py::test_the_most_channels
- sample rate
    tests/audio/test_limits.py::test_the_lowest_and_the_highest_rate
- live streams at once, and the length of one
    tests/recognition/live/test_stream_ends.py::test_limits
- length of a chunk
    tests/recognition/live/test_stream_ends.py::test_a_bad_chunk_fails_alone_and_the_stream_goes_on
- a live stream without a chunk
    tests/recognition/live/test_stream_ends.py::test_a_stream_without_chunks_expires
- audio in chunks of a stream that wait
    tests/recognition/live/test_stream_ends.py::test_too_much_audio_that_waits_ends_the_stream
- passes over live utterances at once
    tests/recognition/live/test_second_passes.py::test_a_second_pass_that_finds_no_place_in_time_is_left_out
- second passes of a stream at once
    tests/recognition/live/test_second_passes.py::test_no_more_second_passes_are_under_way_than_the_limit
- models of `post`
    tests/wire/test_named_models.py::test_there_are_at_most_so_many
- `prompt`
    tests/wire/test_options.py::test_a_wrong_option_is_named_with_what_it_takes_and_what_was_sent
- hypotheses of a segment that Whisper searches or scores
    tests/wire/test_options.py::test_whisper_scores_so_many_texts_of_a_segment_at_most
- component: audio of a call of `vad` and `ctc_streaming_encoder`, frames of a decoder
    tests/families/silero/test_vad.py::test_a_waveform_is_two_minutes_at_most
- component: segment of `ctc_encoder`
    tests/families/ctc/test_encoder.py::test_the_longest_segment
- component: segment of Whisper; beam, n-best list and texts to score
    tests/families/whisper/test_decoder.py::test_what_makes_a_call_dear_is_limited
- component: a text to score or align
    tests/families/ngram/test_rescorer.py::test_texts_are_limited
- gateway: a file
    tests/gateway/test_hostile.py::test_a_file_has_its_limit
- gateway: all uploads at once
    tests/gateway/test_hostile.py::test_an_upload_without_room_is_refused_before_it_is_read
- gateway: known speakers with audio, in a form
    tests/gateway/test_hostile.py::test_a_form_has_its_limits
- gateway: one of several keys
    tests/gateway/test_state.py::test_one_of_several_keys_has_its_share_of_places_and_of_room
- gateway: a frame of `/v1/conch/listen`
    tests/gateway/test_listen_session.py::test_a_frame_that_is_too_large_ends_the_session
- gateway: text of `/v1/conch/speak` that waits
    tests/gateway/test_speak.py::test_too_many_flushes_end_the_session
- gateway: audio of an event of `/v1/realtime`
    tests/gateway/realtime/test_session.py::test_the_largest_append_fits_into_a_message
"""
"""Limits whose values stand on other pages: docs/guide/configuration.md has those that are
parameters, docs/guide/gateway.md those that are flags."""
BOUNDS = f"""
- files, and texts, whose bytes come: {COMING} each
    tests/gateway/test_hostile.py::test_uploads_that_do_not_come_keep_no_place_from_the_others
- time of an upload: {TIMES.idle_s:g} s + {TIMES.upload_s:g} s
    tests/gateway/test_hostile.py::test_an_upload_that_trickles_or_has_no_end_is_given_up
- fields of an upload, in memory:
{(form.MAX_FORM_BYTES + form.MAX_AUDIO_BYTES) / form.MB:.1f} MB
    tests/gateway/test_hostile.py::test_a_form_has_its_limits
- a text as JSON: {doors.SPEECH.max_message_bytes >> 20} MiB, {bodies.MAX_MARKS} values,
in {TIMES.idle_s:g} s
    tests/gateway/test_hostile.py::test_json_has_a_depth_and_a_size
- files, and texts, in work: {GATEWAY.max_files} each
    tests/gateway/test_state.py::test_what_comes_takes_another_place_than_what_is_in_work
- transcripts that are sent or written: {state.MAX_TRANSCRIPTS}
    tests/gateway/test_format.py::test_so_many_transcripts_wait_at_most
- threads that write transcripts: {state.MAX_WRITING}, for {format.WRITE_S:g} s each, and while
their client is there
    tests/gateway/test_format.py::test_work_ends_when_its_client_leaves_and_when_the_gateway_stops
- losses of servers: {MAX_NAMES} files or texts, for {REMEMBERED_S / 3600:g} h
    tests/client/test_poison.py::test_so_many_losses_are_remembered_at_most
- callers with their limits: one for each key
    tests/gateway/test_state.py::test_a_key_is_one_caller
- client secrets: {keys.MAX_SECRETS} for each key, for {LIFETIMES_S[1]} s
    tests/gateway/test_keys.py::test_many_secrets_of_a_key_push_out_its_own_alone
- labels of metrics: routes that exist, and `other`; names of keys; statuses
    tests/gateway/test_hostile.py::test_addresses_that_do_not_exist_are_one_label
- calls of Riva's API: {MAX_CALLS}
    tests/gateway/riva/test_server.py::test_so_many_calls_run_at_most
- calls of Riva's API that have sent nothing:
{COMING}, for {2 * calls.LONGEST_UPLOAD * TIMES.idle_s:g} s
    tests/gateway/riva/test_server.py::test_calls_that_send_nothing_keep_no_place_from_the_others
- requests of Riva's API that gRPC receives: as many of {GATEWAY.max_body_mb:g} MB as uploads have
room for, at least {state.MIN_READING}
    tests/gateway/riva/test_server.py::test_so_many_requests_are_read_at_once_as_there_is_room_for
- connections of Wyoming: {CONNECTIONS_A_SESSION * GATEWAY.max_sessions}
    tests/gateway/test_hostile.py::test_connections_of_wyoming_are_limited
- live sessions: {GATEWAY.max_sessions}, for {GATEWAY.max_session_s / 3600:g} h
    tests/gateway/test_state.py::test_one_of_several_keys_has_its_share_of_places_and_of_room
- audio of a session that waits: {GATEWAY.max_backlog_s:g} s
    tests/gateway/test_live_session.py::test_audio_waits_until_the_server_has_room
- frames of a session that wait: {live_session.MAX_WAITING}
    tests/gateway/test_live_session.py::test_frames_and_requests_wait_if_too_many_do
- answers of a session that its client has not read: {live_session.MAX_UPDATES}
    tests/gateway/test_live_session.py::test_updates_that_nobody_takes_stop_the_audio
- audio that is kept for another server: {MAX_KEPT_S:g} s
    tests/session/test_joined_streams.py::test_kept_audio_is_bounded
- text that the end of a session repeats: {listen_messages.MAX_END_TEXT} characters
    tests/gateway/test_listen_messages.py::test_a_session_of_a_day_keeps_no_more_text_than_one_of_hours
- a decoder of audio: {worker.MAX_MEMORY >> 20} MiB, {worker.MAX_CPU_S} s of CPU time for the
next samples
    tests/audio/test_intake.py::test_a_decoder_has_limits_and_nothing_of_ours
- decoders of audio: one for a file that is read, or a live container;
{intake.MAX_IDLE} idle
    tests/audio/test_intake.py::test_few_decoders_are_kept
- requests that wait for room: those in flight
    tests/bls/test_admission.py::test_those_who_leave_while_they_wait_are_forgotten
- the order of requests: twice those in flight
    tests/bls/test_admission.py::test_those_who_give_up_leave_nothing_behind_however_many_they_are
- calls that wait for a component: those of requests in flight
    tests/bls/test_concurrency.py::test_calls_that_leave_while_they_wait_are_forgotten
- questions whether the server has a model: those of the last {REMEMBER_S:g} s
    tests/bls/test_failover.py::test_no_question_is_kept_for_a_name_that_somebody_made_up
- requests that wait for the process `speech`: {PATIENCE_S:g} s each
    tests/bls/test_relay.py::test_without_a_host_a_request_is_refused
- audio of known speakers: {MAX_KNOWN} of {MOST_S:g} s, within the seconds and bytes in flight
    tests/families/speakers/test_labels.py::test_audio_counts_in_the_limit_of_the_server
- known speakers of a request that are decoded at once: {AT_ONCE}
    tests/families/speakers/test_labels.py::test_few_voices_are_decoded_at_once
- caches by texts, words and lists of clients: {_CACHED} entries each, most of them fewer
    tests/test_layout.py::test_every_cache_has_a_bound
- lines of Triton's log that are kept: {TAIL_LINES}
    tests/launcher/test_logs.py::test_the_latest_lines_are_kept
"""


def all_tests() -> list[str]:
    listed = OF_SERVER + OF_GATEWAY + ELSEWHERE + BOUNDS
    tests = [test for _, test in LIMIT.findall(listed)]
    assert len(tests) == listed.count("\n- "), "a limit has no test below it"
    return tests


def with_tables(text: str) -> str:
    """Return a document with its limits as they are now."""
    lists = {
        "limits": f"{_lines(OF_SERVER)}\nOf the gateway:\n\n{_lines(OF_GATEWAY)}",
        "bounds": _lines(BOUNDS),
    }
    return MARKED.sub(lambda marks: marks[1] + lists[marks[2]] + marks[3], text)


def _lines(listed: str) -> str:
    return "".join(f"{limit.replace(chr(10), ' ')}\n" for limit, _ in LIMIT.findall(listed))


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text(encoding="utf-8")), encoding="utf-8")
