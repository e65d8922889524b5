"""Close Triton's administration to the clients that reach its ports.

A client that may register shared memory can map the python backend's own segments. It can read
other clients' audio there, and crash the server by writing (CVE-2025-23319, -23320, -23334).
Loading a model runs its code. Trace and log settings write files. Recognition needs none of these.
Nor do clients need to call the components, whose key only the models have.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conch.processes import settings_of
from conch.wire import entry_points
from conch.wire.errors import ServerError

ADMIN_APIS = ("shared-memory", "model-repository", "trace", "logging")
"""Triton's names of the closed APIs; all others answer clients."""
OPTIONS = ("--http-restricted-api", "--grpc-restricted-protocol")
"""Options of `tritonserver` that restrict APIs, for HTTP and for gRPC."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """APIs of one protocol that answer only requests with this header and value."""

    option: str
    apis: tuple[str, ...]
    header: str
    value: str = field(repr=False)

    @property
    def argument(self) -> str:
        return f"{self.option}={','.join(self.apis)}:{self.header}={self.value}"


def callers_restrictions(extra_args: Iterable[str]) -> list[Restriction]:
    restrictions = []
    for option, setting in settings_of(extra_args, OPTIONS):
        apis, _, pair = setting.partition(":")
        header, _, value = pair.partition("=")
        if not (apis and header and value):
            raise ServerError(
                f"{option} takes API[,API...]:HEADER=VALUE, for example "
                f"{option}=inference:x-api-key=secret; sent: {setting!r}"
            )
        restrictions.append(Restriction(option, tuple(apis.split(",")), header, value))
    return restrictions


def new_key() -> str:
    return secrets.token_urlsafe(24)


def with_component_key(environment: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the environment of a server whose components require this key; empty opens them.

    Other local users cannot read a process's environment, as they can its command line.
    """
    copied = {**environment, entry_points.COMPONENT_KEY_VARIABLE: key}
    if not key:
        del copied[entry_points.COMPONENT_KEY_VARIABLE]
    return copied


def own_restrictions(callers: Sequence[Restriction]) -> list[Restriction]:
    """Return restrictions, with a new key, for the ADMIN_APIS that the caller leaves open."""
    key = new_key()
    restrictions = []
    for option in OPTIONS:
        taken = {api for item in callers if item.option == option for api in item.apis}
        if left := tuple(api for api in ADMIN_APIS if api not in taken):
            restrictions.append(Restriction(option, left, "conch-admin-key", key))
    return restrictions


def headers_for(api: str, restricted: Iterable[Restriction]) -> Mapping[str, str]:
    return {
        item.header: item.value
        for item in restricted
        if item.option == OPTIONS[0] and api in item.apis
    }


def without_keys(command: Iterable[str]) -> list[str]:
    """Return a command's arguments with `***` in place of the values of its restrictions."""
    shown = []
    before = ""
    for argument in command:
        apis, colon, pair = argument.partition(":")
        if colon and (before in OPTIONS or argument.partition("=")[0] in OPTIONS):
            argument = f"{apis}:{pair.partition('=')[0]}=***"
        shown.append(argument)
        before = argument
    return shown
