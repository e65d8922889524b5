"""API keys: hashed at rest, compared in constant time, each with a name and limits.

A file that cannot be read or written, or is not one of keys, is a ConfigError.
"""

import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conch.families.family import user_folder
from conch.gateway.limits import Limits
from conch.whole import write_private
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

KEYS_VARIABLE = "CONCH_API_KEYS"
"""Environment variable of keys: `name:key`, separated by commas."""
PREFIX = "conch_"
"""Beginning of every key that Conch makes, so that scanners of secrets find it."""
SECRET_PREFIX = "ek_"
MAX_SECRETS = 1_000
"""Client secrets of one key that are valid at once."""


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without the key itself."""

    name: str
    """Name in logs and metrics."""
    sha256: str
    """Digest of the key in hexadecimal digits. A plain digest is enough for 256 random bits."""
    limits: Limits = field(default_factory=Limits)
    created: int = 0
    """Seconds since 1970."""


def default_keys_file() -> Path:
    """Return the file of keys where none is named."""
    return user_folder("XDG_CONFIG_HOME", ".config") / "gateway-keys.json"


def digest(secret: str) -> str:
    # aiohttp gives bytes of a header that are no UTF-8 as surrogates.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file; none if there is no file."""
    try:
        return [
            Key(item["name"], item["sha256"], Limits(**item["limits"]), item["created"])
            for item in json.loads(path.read_text())["keys"]
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"keys file {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"keys file {path} is damaged: {error}") from None


def write_keys(path: Path, keys: Iterable[Key]) -> None:
    """Write a file of keys that only its owner can read, in one step."""
    text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, text.encode())
    except OSError as error:
        raise ConfigError(f"keys file {path} cannot be written: {error.strerror}") from None


def add_key(path: Path, name: str, limits: Limits) -> str:
    """Add a new key to a file and return it; a second one of this name is a ConfigError."""
    keys = read_keys(path)
    if any(key.name == name for key in keys):
        raise ConfigError(f"keys file {path} has a key {name!r} already; remove it first")
    secret = PREFIX + secrets.token_urlsafe(32)
    write_keys(path, [*keys, Key(name, digest(secret), limits, int(time.time()))])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove a key from a file, for running gateways too; an unknown one is a ConfigError."""
    keys = read_keys(path)
    left = [key for key in keys if key.name != name]
    if len(left) == len(keys):
        known = ", ".join(key.name for key in keys) or "none"
        raise ConfigError(f"keys file {path} has no key {name!r}; it has: {known}")
    write_keys(path, left)


def keys_of_environment(text: str) -> list[Key]:
    """Return the keys in `CONCH_API_KEYS`; a ConfigError for a wrong item does not show it."""
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
        """Read the file, if any; raise a ConfigError if it is wrong or two keys share a name."""
        self._path, self._others = path, list(others)
        self._version: tuple[int, int] | None = None
        self._problem = ""
        """Problem of the file that was logged last."""
        self._keys = self._others
        self._refresh()

    @property
    def is_needed(self) -> bool:
        """Whether requests need a key: there is a file of keys, or a key."""
        self._try_refresh()
        return bool(self._others) or self._version is not None

    @property
    def are_several(self) -> bool:
        """Whether more than one client may have a key."""
        return len(self._keys) > 1

    def find(self, secret: str) -> Key | None:
        """Return the key that a client has sent, None if it is not one. Takes constant time."""
        self._try_refresh()
        sent = digest(secret)
        match = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, sent):
                match = key
        return match

    def has(self, key: Key | None) -> bool:
        """Return whether a key is still one of these, or for None whether none is needed."""
        return not self.is_needed if key is None else key in self._keys

    def _try_refresh(self) -> None:
        """Read the file again if it has changed; keep the former keys while it is damaged."""
        try:
            self._refresh()
            self._problem = ""
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning("%s; the former keys stay valid", error)

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
class ClientSecret:
    """A short-lived secret that stands for a key, without the secret itself."""

    key: Key | None
    """None where none is needed."""
    until: float
    """End of validity, in seconds since 1970."""
    settings: object = None


class ClientSecrets:
    """The client secrets of a gateway. They are for browsers, which must not know the key."""

    def __init__(self, most: int = MAX_SECRETS) -> None:
        """Let each key have `most` valid secrets."""
        self._most = most
        self._secrets: dict[str, ClientSecret] = {}
        """Secrets by digest. The time of a look-up by digest does not help to guess a secret."""

    def make(self, key: Key | None, lifetime_s: float, now: float, settings: object = None) -> str:
        """Return a new secret, which opens sessions with `settings` for `lifetime_s` from `now`."""
        self._secrets = {name: item for name, item in self._secrets.items() if item.until > now}
        owner = key and key.name
        keys = ((name, item.key) for name, item in self._secrets.items())
        own = [name for name, other in keys if (other and other.name) == owner]
        for name in own[: max(0, len(own) + 1 - self._most)]:
            del self._secrets[name]
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        self._secrets[digest(secret)] = ClientSecret(key, now + lifetime_s, settings)
        return secret

    def find(self, secret: str) -> ClientSecret | None:
        """Return a secret that was made here, which may have expired; None for another one."""
        return self._secrets.get(digest(secret))
