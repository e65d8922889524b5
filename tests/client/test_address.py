import pytest

from conch.client.endpoint import Address
from conch.wire.errors import ServerError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost", "http://localhost:8000"),
        ("http://asr.example/base/", "http://asr.example:8000/base"),
        ("https://asr.example", "https://asr.example:443"),
        ("grpc://127.0.0.1", "grpc://127.0.0.1:8001"),
        ("grpcs://asr.example:443", "grpcs://asr.example:443"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_urls(url: str, expected: str) -> None:
    assert str(Address.parse(url)) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host", "the scheme is one of http://, https://, grpc://, grpcs://"),
        ("http://", "no host"),
        ("host:port", "port"),
        ("host:99999", "[Pp]ort"),
        ("grpc://host/path", "gRPC takes no path"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(ServerError, match=message):
        Address.parse(url)
