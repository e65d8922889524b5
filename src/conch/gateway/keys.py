"""API keys: hashed at rest, compared in constant time, each with a name and limits."""

import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conch.gateway.limits import Limits
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

KEYS_VARIABLE = "CONCH_API_KEYS"
"""Environment variable of keys: `name:key`, separated by commas."""
PREFIX = "conch_"
"""Beginning of every key that Conch makes, so that scanners of secrets find it."""
SECRET_PREFIX = "ek_"
"""Beginning of every client secret."""
MAX_SECRETS = 1_000
"""Client secrets of one key that are valid at once."""


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without the key itself."""

    name: str
    """What logs and metrics call it."""
    sha256: str
    """Digest of the key in hexadecimal digits. A key has 256 random bits, so that a plain digest
    is enough."""
    limits: Limits = field(default_factory=Limits)
    created: int = 0
    """Seconds since 1970."""


def default_keys_file() -> Path:
    """Return the file of keys where none is named."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "conch" / "gateway-keys.json"


def digest(secret: str) -> str:
    """Return what is kept of a key."""
    # What is no UTF-8 reaches the headers of a request in this form.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file; none if there is no file.

    Raises:
        ConfigError: the file cannot be read, or is not one of keys.
    """
    try:
        data = json.loads(path.read_text())
        return [_key(item) for item in data["keys"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"keys file {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"keys file {path} is damaged: {error}") from None


def _key(item: Mapping[str, Any]) -> Key:
    return Key(item["name"], item["sha256"], Limits(**item["limits"]), item["created"])


def write_keys(path: Path, keys: Iterable[Key]) -> None:
    """Write a file of keys that only its owner reads; a gateway sees it whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=2) + "\n"
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise ConfigError(f"keys file {path} cannot be written: {error.strerror}") from None


def add_key(path: Path, name: str, limits: Limits) -> str:
    """Add a key to a file and return it. It is nowhere else, and cannot be shown again.

    Raises:
        ConfigError: there is a key of this name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    if any(key.name == name for key in keys):
        raise ConfigError(f"keys file {path} has a key {name!r} already; remove it first")
    secret = PREFIX + secrets.token_urlsafe(32)
    write_keys(path, [*keys, Key(name, digest(secret), limits, int(time.time()))])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove a key from a file; a running gateway refuses it from the next request on.

    Raises:
        ConfigError: there is no key of this name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    left = [key for key in keys if key.name != name]
    if len(left) == len(keys):
        known = ", ".join(key.name for key in keys) or "none"
        raise ConfigError(f"keys file {path} has no key {name!r}; it has: {known}")
    write_keys(path, left)


def keys_of_environment(text: str) -> list[Key]:
    """Return the keys of the environment variable `CONCH_API_KEYS`.

    Raises:
        ConfigError: an item is not `name:key`; the message does not show it.
    """
    keys = []
    for number, item in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, colon, secret = item.partition(":")
        if not (name and colon and secret):
            raise ConfigError(f"{KEYS_VARIABLE}: item {number} is not name:key")
        keys.append(Key(name, digest(secret)))
    return keys


class KeyRing:
    """The keys that a gateway takes; it reads their file again whenever that changes."""

    def __init__(self, path: Path | None, others: Iterable[Key] = ()) -> None:
        """Read the file.

        Args:
            path: The file of keys; None for none. It need not exist yet.
            others: Keys beside those of the file.

        Raises:
            ConfigError: the file cannot be read, or two keys have one name.
        """
        self._path, self._others = path, list(others)
        self._version: tuple[int, int] | None = None
        self._problem = ""
        """What the log has been told of the file."""
        self._keys = self._others
        self._refresh()

    @property
    def is_needed(self) -> bool:
        """Whether requests need a key: there is a file of keys, or a key."""
        self._try_refresh()
        return bool(self._others) or self._version is not None

    def find(self, secret: str) -> Key | None:
        """Return the key that a client has sent, None if it is not one.

        The time tells nothing of how much of a key is right.
        """
        self._try_refresh()
        sent = digest(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, sent):
                found = key
        return found

    def has(self, key: Key | None) -> bool:
        """Return whether a key is still one of these; None is where none is needed."""
        return not self.is_needed if key is None else key in self._keys

    def _try_refresh(self) -> None:
        """Read the file again if it has changed; while it is damaged, the former keys stay."""
        try:
            self._refresh()
            self._problem = ""
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning("%s; the keys of before stay in force", error)

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            # Once there were keys, a file that is lost must not open the gateway.
            if self._version is not None and self._keys != self._others:
                logger.warning("keys file %s is gone: its keys are refused", self._path)
                self._keys = self._others
            return
        except OSError as error:
            message = f"keys file {self._path} cannot be read: {error.strerror}"
            raise ConfigError(message) from None
        if version != self._version:
            keys = [*self._others, *read_keys(self._path)]
            if len({key.name for key in keys}) < len(keys):
                raise ConfigError(f"keys file {self._path} and {KEYS_VARIABLE} share a name")
            self._keys, self._version = keys, version


@dataclass(frozen=True, slots=True)
class _ClientSecret:
    key: Key | None
    """None where none is needed."""
    until: float
    """End of validity, in seconds since 1970."""
    settings: object
    """What the sessions that it opens begin with."""


class ClientSecrets:
    """Short-lived secrets that stand for a key, for browsers, which must not know the key."""

    def __init__(self) -> None:
        self._secrets: dict[str, _ClientSecret] = {}
        """By digest. That of a random secret tells nothing about how much of it is right."""

    def make(self, key: Key | None, lifetime_s: float, now: float, settings: object = None) -> str:
        """Return a new secret.

        Args:
            key: Whose limits count.
            lifetime_s: Seconds in which a session may be opened with it.
            now: Seconds since 1970.
            settings: What the sessions that it opens begin with.
        """
        self._secrets = {name: item for name, item in self._secrets.items() if item.until > now}
        owner = _name_of(key)
        own = [name for name, item in self._secrets.items() if _name_of(item.key) == owner]
        for name in own[: max(0, len(own) + 1 - MAX_SECRETS)]:
            del self._secrets[name]
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        self._secrets[digest(secret)] = _ClientSecret(key, now + lifetime_s, settings)
        return secret

    def find(self, secret: str, now: float) -> tuple[Key | None, bool]:
        """Return the key that a secret stands for, and whether the secret is valid."""
        found = self._secrets.get(digest(secret))
        return (found.key, found.until > now) if found else (None, False)

    def settings(self, secret: str) -> object:
        """Return what sessions begin with that a secret opens; None for another secret."""
        found = self._secrets.get(digest(secret))
        return found.settings if found else None


def _name_of(key: Key | None) -> str | None:
    return key.name if key else None
