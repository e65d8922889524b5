"""Writes the list of bounds in docs/notes/reliability.md, and knows the test of each.

    python scripts/bounds_table.py

It has what grows with what clients send, except the limits of a request: `limits_table.py` writes
those into the guide. The values are those of the code.
"""

import re
from pathlib import Path

from conch.audio import intake, worker
from conch.bls.failover import REMEMBER_S
from conch.bls.relay import PATIENCE_S
from conch.client.poison import MAX_NAMES, REMEMBERED_S
from conch.decoding.fusion import _CACHED
from conch.families.speakers.enrolment import AT_ONCE, MOST_S
from conch.gateway import (
    bodies,
    doors,
    form,
    format,
    keys,
    listen_messages,
    live_session,
    state,
)
from conch.gateway.config import GatewayConfig
from conch.gateway.realtime.secrets import LIFETIMES_S
from conch.gateway.riva import calls
from conch.gateway.riva.server import MAX_CALLS
from conch.gateway.wyoming.connection import CONNECTIONS_A_SESSION
from conch.launcher.logs import TAIL_LINES
from conch.session.joined_streams import MAX_KEPT_S
from conch.wire.known_speakers import MAX_KNOWN

DOCUMENT = Path(__file__).parents[1] / "docs" / "notes" / "reliability.md"
MARKED = re.compile(r"(<!-- bounds -->\n).*?(<!-- /bounds -->)", flags=re.S)
BOUND = re.compile(r"^(- .*(?:\n\S.*)*)\n    (\S+)$", re.M)
"""A line of the list, and below it the test that meets its bound: `file::function`."""
GATEWAY = GatewayConfig()
TIMES, COMING = GATEWAY.times, state.ARRIVING * GATEWAY.max_files

BOUNDS = f"""
- files, and texts, whose bytes come: {COMING} each
    tests/gateway/test_hostile.py::test_uploads_that_do_not_come_keep_no_place_from_the_others
- time of an upload: {TIMES.idle_s:g} s + {TIMES.upload_s:g} s
    tests/gateway/test_hostile.py::test_an_upload_ends_in_a_time_whatever_its_size
- fields of an upload, in memory:
{(form.MAX_FORM_BYTES + form.MAX_AUDIO_BYTES) / form.MB:.1f} MB
    tests/gateway/test_hostile.py::test_all_fields_together_have_theirs
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
    return [test for _, test in BOUND.findall(BOUNDS)]


def with_table(text: str) -> str:
    """Return the document with the list as it is now."""
    lines = "".join(f"{line.replace(chr(10), ' ')}\n" for line, _ in BOUND.findall(BOUNDS))
    return MARKED.sub(lambda marks: marks[1] + lines + marks[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
