"""How hosts are written, and which are on this machine."""

import socket

import pytest

from conch.wire.hosts import host_port, is_here, is_loopback, reachable


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("127.0.0.1", "127.0.0.1:9"),
        ("::1", "[::1]:9"),
        ("[::1]", "[::1]:9"),
        ("asr.example", "asr.example:9"),
    ],
)
def test_an_ipv6_address_has_brackets(host: str, written: str) -> None:
    assert host_port(host, 9) == written


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_the_loopback_is_here(host: str) -> None:
    assert is_loopback(host)
    assert is_here(host)


@pytest.mark.parametrize("host", ["asr.example", "198.51.100.7", "2001:db8::1", ""])
def test_others_are_not_the_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["asr.example", "198.51.100.7", "2001:db8::1"])
def test_others_are_elsewhere(host: str) -> None:
    assert not is_here(host)


def test_an_address_of_this_machine_in_its_network_is_here() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.7", 9))
        except OSError:
            pytest.skip("this machine has no network")
        assert is_here(probe.getsockname()[0])


def test_a_server_on_every_interface_is_reached_by_the_loopback() -> None:
    assert [*map(reachable, ("0.0.0.0", "::", "10.0.0.5"))] == ["127.0.0.1", "::1", "10.0.0.5"]
    assert is_here("0.0.0.0")
