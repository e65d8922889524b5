"""Places and room for work, and what one key may have of them."""

from contextlib import AbstractContextManager, ExitStack

import pytest

from conch.gateway.config import GatewayConfig
from conch.gateway.errors import ApiError
from conch.gateway.keys import KEYS_VARIABLE, Key
from conch.gateway.limits import Limits
from conch.gateway.state import ARRIVING, Caller, Gateway


def gateway_with(monkeypatch: pytest.MonkeyPatch, keys: str) -> Gateway:
    monkeypatch.setenv(KEYS_VARIABLE, keys)
    return Gateway(GatewayConfig(port=0, max_files=4, max_sessions=4, max_upload_mb=4))


def test_one_of_several_keys_has_its_share_of_places_and_of_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = gateway_with(monkeypatch, "anna:a,shop:b")

    def room_for(caller: Caller, size: int) -> AbstractContextManager[object]:
        return gateway.uploads.taken(size, caller.name, gateway.share)

    anna, shop = (gateway.caller(gateway.keys.find(secret)) for secret in "ab")
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(gateway.file_of(anna))()
            held.enter_context(gateway.session_of(anna, "/v1/conch/listen"))
        for place in (gateway.file_of(anna), gateway.session_of(anna, "/v1/conch/listen")):
            with pytest.raises(ApiError, match=r"^3 .* for this key, the most of one key") as full:
                held.enter_context(place)
            assert (full.value.status, full.value.code) == (503, "overloaded")
        held.enter_context(gateway.file_of(shop))()
        held.enter_context(gateway.session_of(shop, "/v1/conch/listen"))
    held.enter_context(gateway.file_of(anna))()

    assert gateway.largest_upload == 3_000_000
    with room_for(anna, 3_000_000):
        with pytest.raises(ApiError, match=r"uploads of this key have 3 MB .* 3 MB of them"):
            room_for(anna, 1).__enter__()
        with room_for(shop, 1_000_000):
            pass
    with room_for(anna, 3_000_000):
        pass


@pytest.mark.parametrize("keys", ["", "anna:a"])
def test_the_only_client_has_all(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    gateway = gateway_with(monkeypatch, keys)
    caller = gateway.caller(gateway.keys.find("a"))
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(gateway.file_of(caller))()
        with pytest.raises(ApiError, match=r"^4 files are in work; try again later"):
            gateway.file_of(caller).__enter__()
    with gateway.uploads.taken(4_000_000, caller.name, gateway.share):
        pass


def test_what_comes_takes_another_place_than_what_is_in_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = gateway_with(monkeypatch, "")
    caller = gateway.caller(None)
    with ExitStack() as held:
        begin, *others = (held.enter_context(gateway.file_of(caller)) for _ in range(4 * ARRIVING))
        with pytest.raises(ApiError, match=r"^16 files are uploaded"):
            gateway.file_of(caller).__enter__()
        for other in others[:4]:
            other()
        # All of it has come, and there is no place for it.
        with pytest.raises(ApiError, match=r"^4 files are in work"):
            begin()
        assert gateway.metrics.registry.get_sample_value("conch_gateway_files") == 16
    assert gateway.metrics.registry.get_sample_value("conch_gateway_files") == 0
    with gateway.file_of(caller) as begin:
        begin()


def test_what_has_come_needs_no_place_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = gateway_with(monkeypatch, "")
    caller = gateway.caller(None)
    with ExitStack() as held:
        for _ in range(4 * ARRIVING):
            held.enter_context(gateway.text_of(caller))
        for _ in range(4):
            held.enter_context(gateway.text_of(caller, has_come=True))
        with pytest.raises(ApiError, match=r"^4 texts are spoken"):
            gateway.text_of(caller, has_come=True).__enter__()


def test_a_request_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = gateway_with(monkeypatch, "")
    caller = gateway.caller(Key("shop", "", Limits(requests_per_minute=1)))
    with gateway.text_of(caller) as begin:
        begin()
    with pytest.raises(ApiError, match="limit of 1 requests a minute"):
        gateway.text_of(caller).__enter__()


def test_a_key_is_one_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = gateway_with(monkeypatch, "")
    for number in range(100):
        key = Key("shop", "", Limits(requests_per_minute=number))
        assert gateway.caller(key) is gateway.caller(key)
    assert len(gateway._callers) == 1
