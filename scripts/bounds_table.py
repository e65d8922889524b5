"""Writes the table of bounds in docs/notes/reliability.md, and knows the test of each.

    python scripts/bounds_table.py

It has what grows with what clients send, except the limits of a request: `limits_table.py` writes
those into the guide. The values are those of the code.
"""

import re
from dataclasses import dataclass
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

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "notes" / "reliability.md"
MARKED = re.compile(r"(<!-- bounds -->\n).*?(<!-- /bounds -->)", flags=re.S)

HOSTILE = "tests/gateway/test_hostile.py"
STATE = "tests/gateway/test_state.py"
RIVA = "tests/gateway/riva/test_server.py"
LIVE = "tests/gateway/test_live_session.py"
ADMISSION = "tests/bls/test_admission.py"
KNOWN = "tests/families/speakers/test_labels.py"
INTAKE = "tests/audio/test_intake.py"
LAYOUT = "tests/test_layout.py"


@dataclass(frozen=True, slots=True)
class Bound:
    """A row of the table."""

    what: str
    most: str
    test: str
    """Its test: `file::function`."""


def bounds_of_gateway() -> list[Bound]:
    """Return the bounds of what a gateway holds for its clients."""
    config = GatewayConfig()
    times, arriving = config.times, state.ARRIVING * config.max_files
    return [
        Bound(
            "files, and texts, whose bytes come",
            f"{arriving} each",
            f"{HOSTILE}::test_uploads_that_do_not_come_keep_no_place_from_the_others",
        ),
        Bound(
            "time of an upload",
            f"{times.idle_s:g} s + {times.upload_s:g} s",
            f"{HOSTILE}::test_an_upload_that_trickles_or_has_no_end_is_given_up",
        ),
        Bound(
            "fields of an upload, in memory",
            f"{(form.MAX_FORM_BYTES + form.MAX_AUDIO_BYTES) / form.MB:.1f} MB",
            f"{HOSTILE}::test_a_form_has_its_limits",
        ),
        Bound(
            "a text as JSON",
            f"{doors.SPEECH.max_message_bytes >> 20} MiB, {bodies.MAX_MARKS} values, "
            f"in {times.idle_s:g} s",
            f"{HOSTILE}::test_json_has_a_depth_and_a_size",
        ),
        Bound(
            "files, and texts, in work",
            f"{config.max_files} each",
            f"{STATE}::test_what_comes_takes_another_place_than_what_is_in_work",
        ),
        Bound(
            "transcripts that are sent or written",
            f"{state.MAX_TRANSCRIPTS}",
            "tests/gateway/test_format.py::test_so_many_transcripts_wait_at_most",
        ),
        Bound(
            "threads that write transcripts",
            f"{state.MAX_WRITING}, for {format.WRITE_S:g} s each, and while their client is there",
            "tests/gateway/test_format.py::"
            "test_work_ends_when_its_client_leaves_and_when_the_gateway_stops",
        ),
        Bound(
            "losses of servers",
            f"{MAX_NAMES} files or texts, for {REMEMBERED_S / 3600:g} h",
            "tests/client/test_poison.py::test_so_many_losses_are_remembered_at_most",
        ),
        Bound(
            "callers with their limits",
            "one for each key",
            f"{STATE}::test_a_key_is_one_caller",
        ),
        Bound(
            "client secrets",
            f"{keys.MAX_SECRETS} for each key, for {LIFETIMES_S[1]} s",
            "tests/gateway/test_keys.py::test_many_secrets_of_a_key_push_out_its_own_alone",
        ),
        Bound(
            "labels of metrics",
            "routes that exist, and `other`; names of keys; statuses",
            f"{HOSTILE}::test_addresses_that_do_not_exist_are_one_label",
        ),
        Bound(
            "calls of Riva's API",
            f"{MAX_CALLS}",
            f"{RIVA}::test_so_many_calls_run_at_most",
        ),
        Bound(
            "calls of Riva's API that have sent nothing",
            f"{arriving}, for {2 * calls.LONGEST_UPLOAD * times.idle_s:g} s",
            f"{RIVA}::test_calls_that_send_nothing_keep_no_place_from_the_others",
        ),
        Bound(
            "requests of Riva's API that gRPC receives",
            f"as many of {config.max_body_mb:g} MB as uploads have room for, at least "
            f"{state.MIN_READING}",
            f"{RIVA}::test_so_many_requests_are_read_at_once_as_there_is_room_for",
        ),
        Bound(
            "connections of Wyoming",
            f"{CONNECTIONS_A_SESSION * config.max_sessions}",
            f"{HOSTILE}::test_connections_of_wyoming_are_limited",
        ),
    ]


def bounds_of_sessions() -> list[Bound]:
    """Return the bounds of a live session at the gateway."""
    config = GatewayConfig()
    return [
        Bound(
            "live sessions",
            f"{config.max_sessions}, for {config.max_session_s / 3600:g} h",
            f"{STATE}::test_one_of_several_keys_has_its_share_of_places_and_of_room",
        ),
        Bound(
            "audio of a session that waits",
            f"{config.max_backlog_s:g} s",
            f"{LIVE}::test_audio_waits_until_the_server_has_room",
        ),
        Bound(
            "frames of a session that wait",
            f"{live_session.MAX_WAITING}",
            f"{LIVE}::test_frames_and_requests_wait_if_too_many_do",
        ),
        Bound(
            "answers of a session that its client has not read",
            f"{live_session.MAX_UPDATES}",
            f"{LIVE}::test_updates_that_nobody_takes_stop_the_audio",
        ),
        Bound(
            "audio that is kept for another server",
            f"{MAX_KEPT_S:g} s",
            "tests/session/test_joined_streams.py::test_kept_audio_is_bounded",
        ),
        Bound(
            "text that the end of a session repeats",
            f"{listen_messages.MAX_END_TEXT} characters",
            "tests/gateway/test_listen_messages.py::"
            "test_a_session_of_a_day_keeps_no_more_text_than_one_of_hours",
        ),
        Bound(
            "decoders of audio: each",
            f"{worker.MAX_MEMORY >> 20} MiB, {worker.MAX_CPU_S} s of CPU time for the next samples",
            f"{INTAKE}::test_a_decoder_has_limits_and_nothing_of_ours",
        ),
        Bound(
            "decoders of audio: their number",
            f"one for a file that is read, or a live container; {intake.MAX_IDLE} idle",
            f"{INTAKE}::test_few_decoders_are_kept",
        ),
    ]


def bounds_of_speech() -> list[Bound]:
    """Return the bounds of the process `speech`, of the components and of the launcher."""
    return [
        Bound(
            "requests that wait for room",
            "those in flight",
            f"{ADMISSION}::test_those_who_leave_while_they_wait_are_forgotten",
        ),
        Bound(
            "the order of requests",
            "twice those in flight",
            "tests/bls/test_fair_order.py::"
            "test_those_who_give_up_leave_nothing_behind_however_many_they_are",
        ),
        Bound(
            "calls that wait for a component",
            "those of requests in flight",
            "tests/bls/test_concurrency.py::test_calls_that_leave_while_they_wait_are_forgotten",
        ),
        Bound(
            "questions whether the server has a model",
            f"those of the last {REMEMBER_S:g} s",
            "tests/bls/test_failover.py::test_no_question_is_kept_for_a_name_that_somebody_made_up",
        ),
        Bound(
            "requests that wait for the process `speech`",
            f"{PATIENCE_S:g} s each",
            "tests/bls/test_relay.py::test_without_a_host_a_request_is_refused",
        ),
        Bound(
            "audio of known speakers",
            f"{MAX_KNOWN} of {MOST_S:g} s, within the seconds and bytes in flight",
            f"{KNOWN}::test_audio_counts_in_the_limit_of_the_server",
        ),
        Bound(
            "known speakers of a request that are decoded at once",
            f"{AT_ONCE}",
            f"{KNOWN}::test_few_voices_are_decoded_at_once",
        ),
        Bound(
            "caches by texts, words and lists of clients",
            f"{_CACHED} entries each, most of them fewer",
            f"{LAYOUT}::test_every_cache_has_a_bound",
        ),
        Bound(
            "lines of Triton's log that are kept",
            f"{TAIL_LINES}",
            "tests/launcher/test_logs.py::test_the_latest_lines_are_kept",
        ),
    ]


def all_limits() -> list[Bound]:
    """Return all rows, in their order."""
    return [*bounds_of_gateway(), *bounds_of_sessions(), *bounds_of_speech()]


def table() -> str:
    """Return a row per bound."""
    rows = [f"| {item.what} | {item.most} |\n" for item in all_limits()]
    return "".join(["| what | at most |\n", "| --- | --- |\n", *rows])


def with_table(text: str) -> str:
    """Return the document with the table as it is now."""
    return MARKED.sub(lambda marks: marks[1] + table() + marks[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
