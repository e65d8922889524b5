"""Where requests go, and the headers that go with each of them.

A wrong URL, header or certificate is a ServerError, which does not show the value of a header.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

DEFAULT_URL = "http://127.0.0.1:8000"
_DEFAULT_PORTS = {"http": 8000, "https": 443, "grpc": 8001, "grpcs": 8001}

KEY_VARIABLE = "CONCH_API_KEY"
"""Environment variable with the API key if no other is given."""
CA_VARIABLE = "CONCH_CA_CERT"
"""Environment variable with the file of certificates to trust if no other is given."""
CONNECT_TIMEOUT_S = 10.0
"""Seconds to open a TCP connection, so that a host that drops packets is an error soon."""
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A header's name (RFC 9110, section 5.1)."""
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")
"""A header's value that HTTP and gRPC both carry."""


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
        """Read `host`, `host:port` (both HTTP) or `scheme://host[:port][/base-path]`."""
        try:
            # Without "//", urlsplit reads host:port as scheme:path.
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            hint = "; an IPv6 address has brackets, as [::1]:8000" if url.count(":") > 2 else ""
            raise ServerError(f"server URL {url!r}: {error}{hint}") from None
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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, and the headers of every request to it."""

    address: Address
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by name in lower case, as gRPC wants them. No message or log may show them."""
    ca_cert: str = ""
    """File of the certificates (PEM) to trust; empty for those of the system."""

    def __str__(self) -> str:
        return str(self.address)

    @classmethod
    def parse(
        cls,
        url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_cert: str | None = None,
    ) -> "Endpoint":
        """Read a URL as `Address.parse` does; the others are those of `AsyncClient`."""
        trusted = os.environ.get(CA_VARIABLE, "") if ca_cert is None else ca_cert
        endpoint = cls(Address.parse(url), request_headers(api_key, headers), trusted)
        if endpoint.address.is_secure and trusted:
            endpoint.trust()
        return endpoint

    def trust(self) -> ssl.SSLContext:
        """Return a context with the certificates to trust; raise a ServerError if there is none."""
        try:
            return ssl.create_default_context(cafile=self.ca_cert or None)
        except (OSError, ssl.SSLError) as error:
            raise ServerError(
                f"certificates to trust cannot be read from {self.ca_cert}: {error}; --ca-cert and "
                f"{CA_VARIABLE} take a file of certificates as PEM"
            ) from None


def request_headers(
    api_key: str | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the headers of every request, with names in lower case, as `AsyncClient` takes them.

    An empty key is none.
    """
    checked: dict[str, str] = {}
    key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
    if key.strip():
        checked["authorization"] = f"Bearer {key.strip()}"
        _check("authorization", checked["authorization"])
    for name, value in (headers or {}).items():
        _check(name, value)
        checked[name.lower()] = value
    return checked


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise ServerError(f"header {name!r:.80}: a name is of letters, digits and hyphens")
    if not _VALUE.fullmatch(value):
        raise ServerError(
            f"header {name!r:.80}: a value is printable ASCII, without spaces at its ends"
        )
