"""Find the `tritonserver` to run, and the Python backend that belongs to it."""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from conch.packaged import SERVER_PYTHONS, install
from conch.wire.errors import ServerError

STUB = "triton_python_backend_stub"
"""Name of the program that runs one instance of a Python model."""


@dataclass(frozen=True)
class PythonBackend:
    """The three files that make a Python backend, for one minor version of Python."""

    library: Path
    utils: Path
    stub: Path

    def link_into(self, directory: Path) -> Path:
        """Build a backend directory of symlinks in `directory` and return it.

        Copies would not do: the loader finds the wheel's libraries relative to the real files.
        """
        python = directory / "backends" / "python"
        python.mkdir(parents=True)
        for file in (self.library, self.utils, self.stub):
            (python / file.name).symlink_to(file)
        return python.parent


@dataclass(frozen=True)
class Installation:
    """A server's binary and where its backends come from."""

    tritonserver: Path

    python_backend: PythonBackend | None = None
    """The wheel's backend, of which the launcher builds a directory; None for other servers."""
    backend_directory: Path | None = None
    """Backends of a server that is not in Triton's own /opt/tritonserver; None in that place."""


def wheel_root() -> Path | None:
    """Return the server's folder in the nvidia-pytriton wheel, None if it is not installed."""
    # Its import would take a second and start threads.
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "tritonserver"


def find_installation(
    tritonserver: str | Path | None = None,
    *,
    search_path: str | None = None,
    wheel: Path | None = None,
    python: tuple[int, int] = sys.version_info[:2],
) -> Installation:
    """Return the first server found: at the given path, on `search_path` (PATH), in the wheel.

    Raise a ServerError if there is none, or neither the models nor the stubs run on `python`.
    """
    if python < SERVER_PYTHONS[0]:
        raise ServerError(
            f"Conch's server needs Python 3.11 or 3.12, and this is {python[0]}.{python[1]}; "
            "commands with the URL of a running server work here"
        )
    if tritonserver is not None:
        explicit = Path(os.path.expanduser(tritonserver))
        if not explicit.is_file() or not os.access(explicit, os.X_OK):
            raise ServerError(f"no program that can be run at {explicit} (given as tritonserver)")
        return describe(explicit, python)
    on_path = shutil.which("tritonserver", path=search_path)
    if on_path is not None:
        return describe(Path(on_path), python)
    if wheel is not None and (wheel / "bin" / "tritonserver").is_file():
        return describe(wheel / "bin" / "tritonserver", python)
    where = f"no tritonserver in {wheel}" if wheel else "it is not installed"
    raise ServerError(
        "tritonserver was not found: no path was given, PATH has no tritonserver, and the wheel "
        f"nvidia-pytriton was searched ({where}). Install it {install('server')}"
    )


def describe(binary: Path, python: tuple[int, int]) -> Installation:
    """Return the layout of the server at `binary`, from the folders next to it.

    Raise a ServerError for a wheel that is incomplete, or without a stub for `python`.
    """
    binary = binary.resolve()
    root = binary.parent.parent
    if (root / "python_backend_stubs").is_dir():
        return Installation(binary, python_backend=wheel_backend(root, python))
    backends = root / "backends"
    if backends.is_dir() and root != Path("/opt/tritonserver"):
        return Installation(binary, backend_directory=backends)
    return Installation(binary)


def wheel_backend(root: Path, python: tuple[int, int]) -> PythonBackend:
    """Return the wheel's backend for `python`; raise a ServerError if a file of it is missing."""
    stubs = root / "python_backend_stubs"
    stub = stubs / f"{python[0]}.{python[1]}" / STUB
    if not stub.is_file():
        versions = sorted((path.parent.name for path in stubs.glob(f"*/{STUB}")), key=_version)
        raise ServerError(
            f"the Triton wheel at {root} has no Python backend for Python "
            f"{python[0]}.{python[1]}; it has {', '.join(versions) or 'none at all'}"
        )
    library = root / "backends" / "python" / "libtriton_python.so"
    utils = library.with_name("triton_python_backend_utils.py")
    for file in (library, utils):
        if not file.is_file():
            raise ServerError(f"the Triton wheel at {root} is incomplete: {file} is missing")
    return PythonBackend(library, utils, stub)


def check_numpy(version: str) -> None:
    """Raise a ServerError if the wheel's stubs cannot read numpy's arrays: from version 2 on.

    The stubs are built for numpy 1. With numpy 2 a model's inputs have wrong strides, and it
    computes with wrong values without an error.
    """
    if int(version.split(".")[0]) >= 2:
        raise ServerError(
            "the Python backend of the wheel nvidia-pytriton reads only numpy 1, and numpy "
            f"{version} is installed: pip install 'numpy<2'"
        )


def _version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
