"""Find the `tritonserver` to run, its Python backend, and the libraries that its models need."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conch.packaged import SERVER_PYTHONS, install
from conch.processes import STUB, settings_of
from conch.wire.errors import ServerError

DEBIAN_PACKAGES = {"libexpat.so.1": "libexpat1", "libz.so.1": "zlib1g"}
"""Debian package by library, for libraries that a slim Debian lacks."""
LIBPYTHON = f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
SHARED_MEMORY = Path("/dev/shm")
"""Where the server and its models exchange tensors."""
DEFAULT_TRACES_URL = "http://localhost:4318/v1/traces"


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
    tritonserver: Path

    python_backend: PythonBackend | None = None
    """The wheel's backend, of which the launcher builds a directory; None for other servers."""
    backend_directory: Path | None = None
    """Backends of a server that is not in Triton's own /opt/tritonserver; None in that place."""


def wheel_root() -> Path | None:
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
    """Return the first server found: at the given path, on `search_path` (PATH), in the wheel."""
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
    """Return the layout of the server at `binary`, from the folders next to it."""
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
        versions = [path.parent.name for path in stubs.glob(f"*/{STUB}")]
        versions.sort(key=lambda name: [int(part) for part in name.split(".") if part.isdigit()])
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
    """Raise a ServerError if the wheel's stubs, built for numpy 1, cannot read numpy's arrays.

    With numpy 2 a model's inputs have wrong strides, and it computes with wrong values silently.
    """
    if int(version.split(".")[0]) >= 2:
        raise ServerError(
            "the Python backend of the wheel nvidia-pytriton reads only numpy 1, and numpy "
            f"{version} is installed: pip install 'numpy<2'"
        )


def trace_libraries(binary: Path, environment: Mapping[str, str]) -> dict[str, Path | None]:
    """Return the file that the system's loader takes for each library, None for a missing one."""
    try:
        done = subprocess.run(
            [binary],
            env={**environment, "LD_TRACE_LOADED_OBJECTS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{binary} does not run on this machine: {error}") from error
    return parse_trace(done.stdout)


def parse_trace(text: str) -> dict[str, Path | None]:
    libraries: dict[str, Path | None] = {}
    for name, target in re.findall(r"^\s*(\S+) => (not found|\S+)", text, re.MULTILINE):
        libraries[name] = None if target == "not found" else Path(target)
    return libraries


def server_environment(
    stub: Path | None,
    *,
    base: Mapping[str, str] | None = None,
    libpython: str | None = None,
    directories: list[Path] | None = None,
) -> dict[str, str]:
    """Return an environment in which the server's Python models use this interpreter's packages.

    The stub takes its packages from the first python3 on PATH. It must load the libpython of that
    very python3: the system may have another build of the same minor version. `stub` is None for a
    server that brings its own.
    """
    environment = dict(os.environ if base is None else base)
    bin_directory = str(Path(sys.executable).parent)
    environment["PATH"] = _prepended(bin_directory, environment.get("PATH"))
    # numpy's OpenBLAS lets its threads spin for some 25 ms after each product of the features.
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Each chunk allocates megabytes of caches: huge pages save their page faults.
    environment.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    if stub is None:
        return environment
    libpython = libpython or LIBPYTHON
    likely = (sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib"))
    candidates = directories or [Path(folder) for folder in dict.fromkeys(likely) if folder]
    libraries = trace_libraries(stub, environment)
    own = next((path for path in candidates if (path / libpython).is_file()), None)
    seen = libraries.get(libpython)
    if own is not None and (seen is None or seen.resolve() != (own / libpython).resolve()):
        environment["LD_LIBRARY_PATH"] = _prepended(str(own), environment.get("LD_LIBRARY_PATH"))
        libraries = trace_libraries(stub, environment)
    missing = sorted(name for name, path in libraries.items() if path is None)
    if missing:
        raise ServerError(_missing_message(missing, candidates))
    return environment


def trace_environment(extra_args: Iterable[str], base: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which models send traces where `--trace-config` sends Triton's."""
    pairs = [setting.partition("=") for _, setting in settings_of(extra_args, ("--trace-config",))]
    settings = [(name, value) for name, _, value in pairs]
    environment = dict(base)
    if ("mode", "opentelemetry") in settings:
        url = dict(settings).get("opentelemetry,url", DEFAULT_TRACES_URL)
        environment.setdefault("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)
        attributes = [value for name, value in settings if name == "opentelemetry,resource"]
        environment.setdefault("OTEL_RESOURCE_ATTRIBUTES", ",".join(attributes))
    return environment


def _missing_message(missing: list[str], searched: list[Path]) -> str:
    packages = [
        name.removesuffix(".so.1.0") if name.startswith("libpython") else DEBIAN_PACKAGES.get(name)
        for name in missing
    ]
    known = " ".join(filter(None, packages))
    hint = f"; on Debian: apt-get install {known}" if known else ""
    folders = ", ".join(map(str, searched))
    return (
        f"Triton's Python backend needs {' and '.join(missing)}, found neither in {folders} "
        f"nor by the system's loader{hint}"
    )


def shared_memory_shortage(free_bytes: int | None = None) -> str | None:
    if free_bytes is None:
        try:
            status = os.statvfs(SHARED_MEMORY)
        except OSError:
            return f"{SHARED_MEMORY} is missing: Triton's Python models cannot exchange tensors"
        free_bytes = status.f_bavail * status.f_frsize
    if free_bytes >= 256 << 20:
        return None
    return (
        f"{SHARED_MEMORY} has only {free_bytes >> 20} MiB free and every tensor passes through "
        "it; in a container, start it with --shm-size=1g"
    )


def _prepended(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
