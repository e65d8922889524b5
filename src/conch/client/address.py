"""The address and protocol of a server."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

DEFAULT_URL = "http://127.0.0.1:8000"
_DEFAULT_PORTS = {"http": 8000, "https": 443, "grpc": 8001, "grpcs": 8001}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a server's URL."""

    scheme: str
    """http, https, grpc or grpcs."""
    target: str
    """`host:port`, with the base path if there is one. tritonclient calls this `url`."""

    @property
    def host(self) -> str:
        """The host, without the brackets of an IPv6 address."""
        return urlsplit(str(self)).hostname or ""

    @property
    def is_grpc(self) -> bool:
        return self.scheme.startswith("grpc")

    @property
    def is_secure(self) -> bool:
        return self.scheme.endswith("s")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.target}"

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read `host`, `host:port` (both HTTP) or `scheme://host[:port][/base-path]`.

        Raises:
            ServerError: the scheme is unknown, the host is missing or the port is not a number.
        """
        # Without "//", urlsplit reads host:port as scheme:path.
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise ServerError(f"server URL {url!r}: {error}") from None
        if parts.scheme not in _DEFAULT_PORTS:
            known = ", ".join(f"{scheme}://" for scheme in _DEFAULT_PORTS)
            raise ServerError(f"server URL {url!r}: the scheme is one of {known}")
        if not parts.hostname:
            raise ServerError(f"server URL {url!r}: no host in it")
        path = parts.path.rstrip("/")
        if path and parts.scheme.startswith("grpc"):
            raise ServerError(f"server URL {url!r}: gRPC takes no path")
        target = host_port(parts.hostname, port or _DEFAULT_PORTS[parts.scheme])
        return cls(parts.scheme, target + path)
