"""Keys: what is kept of them, where they come from, and how long they are valid."""

import os
import stat
from pathlib import Path

import pytest

from conch.families.family import models_home
from conch.gateway import keys
from conch.gateway.keys import ClientSecret, ClientSecrets, KeyRing
from conch.gateway.limits import Limits
from conch.wire.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conch" / "keys.json"


def test_a_key_is_found_by_its_secret_and_the_file_does_not_hold_it(file: Path) -> None:
    secret = keys.add_key(file, "anna", Limits(streams=2))
    other = keys.add_key(file, "shop", Limits())
    assert secret != other
    assert len(secret) > 40
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring = KeyRing(file)
    result = ring.find(secret)
    assert result is not None
    assert (result.name, result.limits) == ("anna", Limits(streams=2))
    assert ring.find(secret[:-1]) is None
    assert ring.find("") is None


def test_two_keys_of_one_name_are_refused(file: Path) -> None:
    keys.add_key(file, "anna", Limits())
    with pytest.raises(ConfigError, match="has a key 'anna' already"):
        keys.add_key(file, "anna", Limits())


def test_removing_an_unknown_key_names_those_that_there_are(file: Path) -> None:
    keys.add_key(file, "anna", Limits())
    with pytest.raises(ConfigError, match="no key 'ana'; it has: anna"):
        keys.remove_key(file, "ana")


def test_a_running_ring_takes_new_keys_and_refuses_removed_ones(file: Path) -> None:
    ring = KeyRing(file)
    assert not ring.is_needed
    secret = keys.add_key(file, "anna", Limits())
    assert ring.is_needed, "the first key locks a gateway that runs"
    assert ring.find(secret) is not None
    keys.remove_key(file, "anna")
    assert ring.find(secret) is None
    assert ring.is_needed, "a ring without keys left must not open the gateway"


def test_a_lost_or_damaged_file_does_not_open_the_gateway(file: Path) -> None:
    secret = keys.add_key(file, "anna", Limits())
    ring = KeyRing(file)
    file.write_text("{")
    assert ring.find(secret) is not None, "the former keys stay while the file is damaged"
    with pytest.raises(ConfigError, match="damaged"):
        KeyRing(file)
    file.unlink()
    assert ring.find(secret) is None
    assert ring.is_needed


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(None, keys.keys_of_environment(" anna:abc , shop:d:e "))
    assert ring.is_needed
    assert ring.find("abc").name == "anna"
    assert ring.find("d:e").name == "shop"
    with pytest.raises(ConfigError, match="item 2 is not name:key") as caught:
        keys.keys_of_environment("anna:abc,secret-without-a-name")
    assert "secret-without" not in str(caught.value)


def test_a_client_secret_stands_for_its_key_until_it_expires() -> None:
    secrets, key = ClientSecrets(), keys.Key("anna", keys.digest("abc"))
    secret = secrets.make(key, lifetime_s=60, now=1_000.0)
    assert secrets.find(secret) == ClientSecret(key, until=1_060.0)
    assert secrets.find("ek_other") is None


def test_many_secrets_of_a_key_push_out_its_own_alone() -> None:
    secrets, anna, ben = ClientSecrets(3), *(keys.Key(name, name) for name in ("anna", "ben"))
    of_ben = secrets.make(ben, lifetime_s=60, now=0.0)
    of_anna = [secrets.make(anna, lifetime_s=60, now=0.0) for _ in range(5)]
    valid = [secrets.find(secret) is not None for secret in (of_ben, *of_anna)]
    assert valid == [True, False, False, True, True, True]


def test_two_keys_of_one_name_in_two_places_are_refused(file: Path) -> None:
    keys.add_key(file, "anna", Limits())
    with pytest.raises(ConfigError, match="share a name"):
        KeyRing(file, keys.keys_of_environment("anna:abc"))


def test_the_default_file_is_in_the_users_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", os.sep + "config")
    assert keys.default_keys_file() == Path("/config/conch/gateway-keys.json")


def test_a_user_without_a_home_or_a_name_has_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert keys.default_keys_file() == Path("/.config/conch/gateway-keys.json")
    assert models_home() == Path("/.local/share/conch/models")
