"""The doors of a server, and what hostile clients send through them."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from lab.chaos.doors.audio_files import file_calls
from lab.chaos.doors.chunks import chunk_scripts
from lab.chaos.doors.forms import form_calls, gateway_calls
from lab.chaos.doors.raw import raw_calls
from lab.chaos.doors.sockets import listen_scripts, realtime_scripts
from lab.chaos.doors.target import Addresses, Hostile, Target, target_at
from lab.chaos.doors.triton_grpc import grpc_calls
from lab.chaos.doors.triton_http import byte_calls, json_calls

__all__ = ["DOORS", "Addresses", "Hostile", "Target", "target_at"]

DOORS: Mapping[str, st.SearchStrategy[Any]] = {
    "HTTP, JSON": json_calls(),
    "HTTP, bytes": byte_calls(),
    "gRPC": grpc_calls(),
    "live chunks": chunk_scripts(),
    "files": file_calls(),
    "gateway, forms": form_calls(),
    "gateway, others": gateway_calls(),
    "gateway, listen": listen_scripts(),
    "gateway, realtime": realtime_scripts(),
    "connections": raw_calls(),
}
