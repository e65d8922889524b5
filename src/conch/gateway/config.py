"""The settings of a gateway."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PORT = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a gateway waits for its clients, in seconds."""

    keep_alive_s: float = 75.0
    """An idle connection is closed."""
    idle_s: float = 60.0
    """An upload of which nothing comes is refused. After this time it also has a least speed."""
    upload_s: float = 1800.0
    """Longest upload after that time: the least speed grows with the length that is declared."""
    settings_s: float = 30.0
    """The settings of a client secret are refused."""
    comment_s: float = 15.0
    """A streamed answer without an event gets a comment."""
    ping_s: float = 20.0
    """A WebSocket gets a ping; the client has half as long to answer."""
    send_s: float = 30.0
    """A connection whose client does not take a message, or a part of an answer, is broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The address of a gateway, its clients, limits and servers."""

    servers: tuple[str, ...] = ("grpc://127.0.0.1:8001",)
    """gRPC URLs of the Conch servers behind the gateway."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 takes any free port."""
    wyoming: tuple[str, int] | None = None
    """Address of the Wyoming protocol, which has no keys; None for none."""
    languages: tuple[str, ...] = ("en",)
    """Codes of the languages to announce to clients."""
    riva: tuple[str, int] | None = None
    """Host and port of Riva's gRPC API; None for none."""
    keys_file: Path | None = None
    """API keys, as `conch gateway keys` writes them; None for those of the environment alone."""
    is_open: bool = False
    """Whether everybody may send requests to an address other than loopback."""
    tls_cert: Path | None = None
    """Certificate chain (PEM); None for no TLS."""
    tls_key: Path | None = None
    """Private key (PEM); None if it is in `tls_cert`."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages on other hosts that may use the gateway, as `https://host[:port]`; `*` for all."""
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    """Further names of models, by alias."""
    max_body_mb: float = 200.0
    """Largest file, in megabytes."""
    max_upload_mb: float = 0.0
    """Megabytes of all uploads at once, in memory and on the disk; 0 for a quarter of the memory of
    the machine, or of the container. One more is refused with 503 before it is read."""
    max_audio_s: float = 0.0
    """Longest file, in seconds, if its header has its length; 0 for what the server takes."""
    max_files: int = 64
    """Files at once. One more is refused with 503."""
    max_sessions: int = 256
    """Live sessions at once. One more is refused with 503."""
    max_session_s: float = 86_400.0
    """Longest live session, in seconds; not more than `max_stream_s` of the server."""
    max_backlog_s: float = 30.0
    """Seconds of audio of a live session that may wait for the server before more is read."""
    max_connections: int = 0
    """Connections at once; 0 for as many as the program has file descriptors for."""
    times: Times = Times()
    drain_s: float = 30.0
    """Seconds for running work after the gateway was asked to stop."""
