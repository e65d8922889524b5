"""How the packages of Conch depend on each other, read from their import statements."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from conch.families import FAMILIES, decoders
from conch.gateway.doors import DOORS, PORTS

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"

ARROWS: Mapping[str, set[str]] = {
    # What each family of models declares: data, which everybody may read.
    "declarations": set(),
    # How files are written.
    "whole": set(),
    # What both sides speak, the client, and what recordings are read by.
    "wire": {"declarations"},
    "session": {"wire"},
    "fitted_voices": {"declarations", "whole"},
    "client": {"declarations", "fitted_voices", "session", "whole", "wire"},
    "component": {"wire"},
    "audio": {"component", "wire"},
    # What answers requests; only the last one knows Triton. Recognition finds the hooks of a family
    # by the names that it declares, and imports none.
    "bls": {"component", "declarations", "fitted_voices", "processes", "wire"},
    "recognition": {"audio", "bls", "component", "declarations", "language", "wire"},
    "synthesis": {"audio", "bls", "component", "declarations", "fitted_voices", "wire"},
    "triton": {"bls", "component", "processes", "recognition", "wire"},
    # What the components compute, and the hooks of their families; serving never imports the making
    # of graphs.
    "language": set(),
    "decoding": {"cache", "component", "language", "packaged", "wire"},
    "families": {
        *("audio", "bls", "cache", "catalogue", "component", "declarations", "decoding"),
        *("language", "packaged", "recognition", "wire"),
    },
    "graphs": {"component", "decoding", "whole", "wire"},
    # What is on this machine: weights in packages, and files that are made once.
    "packaged": {"declarations", "wire"},
    "cache": {"declarations", "whole", "wire"},
    "catalogue": {"cache", "declarations", "packaged", "whole", "wire"},
    # What starts servers, watches their processes and asks them.
    "processes": set(),
    "launcher": {
        *("catalogue", "declarations", "fitted_voices", "packaged", "processes", "wire"),
    },
    # Manifests and error rates: what a benchmark, bulk runs and pseudo-labels share.
    "scoring": {"packaged", "wire"},
    "bulk": {"audio", "client", "component", "families", "scoring", "session", "whole", "wire"},
    "bench": {"client", "launcher", "packaged", "scoring", "wire"},
    "pseudo_labels": {"bulk", "client", "component", "scoring", "whole", "wire"},
    # What the public talks to; it knows Triton by the client alone.
    "gateway": {
        *("audio", "client", "declarations", "fitted_voices", "packaged", "session", "whole"),
        "wire",
    },
    # What puts servers together: texts for other programs.
    "deploy": {"catalogue", "client", "component", "whole", "wire"},
    "cli": {
        *("audio", "bench", "bulk", "catalogue", "client", "decoding", "deploy", "families"),
        *(
            "declarations",
            "fitted_voices",
            "gateway",
            "graphs",
            "launcher",
            "packaged",
            "pseudo_labels",
        ),
        *("scoring", "whole", "wire"),
    },
}
"""By package or module of `conch`, which others it may import."""

HEAVY = {
    # The environment of bulk runs has no server: they meet by process alone.
    "bulk": {"torch", "scipy", "psutil", "ctranslate2", "kaldi_decoder"},
    # The benchmarks that are installed need no more than a client, jiwer for word errors, and scipy
    # for those of speakers.
    "bench": {"torch", "faster_whisper", "soxr", "matplotlib"},
    "scoring": {"torch", "scipy", "soxr", "tritonclient", "psutil"},
    "client": {"torch", "scipy", "soxr", "av", "psutil"},
    "wire": {"tritonclient", "scipy", "soundfile", "soxr", "torch"},
}
"""What a package must not import."""


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SRC.rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Yield what a file imports, as `module` or `module.name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{item.name}" for item in node.names)


def modules_of(path: Path) -> set[str]:
    """Return the modules of Conch that a file imports, the packages that they are in left out."""
    found = set()
    for name in imported(path):
        while name not in MODULES and "." in name:
            name = name.rpartition(".")[0]
        if name in MODULES:
            found.add(name)
    return found


def package_of(module: str) -> str:
    """Return the package that a module is in; declarations of families are one of their own."""
    _, package, *below = [*module.split("."), ""]
    # Those of a family are in its `__init__`, next to what all of them share.
    return "declarations" if package == "families" and len(below) < 3 else package


def hooks() -> Iterator[tuple[str, str]]:
    """Yield module and name of each hook, which is imported by its name."""
    for family in FAMILIES:
        folders = (name for kind in family.models for name in (kind.check, kind.networks) if name)
        for name in (*family.hook_names, *folders):
            module, _, hook = name.partition(":")
            yield module, hook
    doors = (name for door in DOORS for name in (door.answered_by, door.refused_by))
    served = (*doors, *(port.opened_by for port in PORTS))
    for name in served:
        module, _, hook = name.partition(":")
        yield f"conch.gateway.{module}", hook


@pytest.mark.parametrize("package", ARROWS)
def test_a_package_imports_only_what_it_stands_on(package: str) -> None:
    own = [path for module, path in MODULES.items() if package_of(module) == package]
    assert own
    for path in own:
        others = {package_of(module) for module in modules_of(path)} - {package, ""}
        assert others <= ARROWS[package], path.relative_to(ROOT)


def test_every_package_has_its_arrows_and_none_goes_back() -> None:
    assert {package_of(module) for module in MODULES} - {""} == set(ARROWS)
    for package, others in ARROWS.items():
        reached = set(others)
        while more := {item for other in reached for item in ARROWS[other]} - reached:
            reached |= more
        assert package not in reached


@pytest.mark.parametrize("package", HEAVY)
def test_a_light_package_imports_nothing_heavy(package: str) -> None:
    for module, path in MODULES.items():
        if package_of(module) == package:
            tops = {name.split(".")[0] for name in imported(path)}
            assert not tops & HEAVY[package], path.relative_to(ROOT)


def test_only_one_package_knows_triton() -> None:
    knowing = {
        package_of(module)
        for module, path in MODULES.items()
        if "triton_python_backend_utils" in set(imported(path))
    }
    assert knowing == {"triton"}


def test_nothing_is_there_for_the_laboratory_or_the_tests_alone() -> None:
    users = [*ROOT.glob("*_models/*/1/model.py"), *ROOT.glob("examples/*.py")]
    # Commands are imported by their names; a worker is a program.
    todo = {"conch", "conch.cli.__main__", "conch.audio.worker"} | {
        m for m in MODULES if package_of(m) == "cli"
    }
    todo |= {module for path in users for module in modules_of(path)}
    todo |= {module for module, _ in hooks()}
    used: set[str] = set()
    while todo:
        module = todo.pop()
        used.add(module)
        todo |= modules_of(MODULES[module]) - used
        todo |= {module.rpartition(".")[0]} - used - {""}
    assert set(MODULES) - used == set()


def test_every_hook_is_where_its_name_says() -> None:
    found = list(hooks())
    assert found
    for module, name in found:
        assert name in set(defined_in(MODULES[module])), (module, name)


def defined_in(path: Path) -> Iterator[str]:
    """Yield the classes, functions and values that a module defines."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_recognition_and_its_core_ask_no_family_by_its_name() -> None:
    names = {name for name, item in decoders().items() if item.components}
    with_recogniser = {name for name, item in decoders().items() if item.recogniser}
    assert names and names <= with_recogniser, "a decoder without its recogniser"
    naming = [
        (path.relative_to(ROOT), node.lineno)
        for package in ("bls", "recognition")
        for path in (SRC / "conch" / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert naming == [], "ask what the decoder declares"


def named(path: Path) -> Iterator[str]:
    """Yield what the code of a file names: variables, attributes and imports, but no text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_every_function_and_class_is_used_by_the_product() -> None:
    users = [*MODULES.values(), *ROOT.glob("*_models/*/1/model.py"), *ROOT.glob("examples/*.py")]
    used = {name for path in users for name in named(path)}
    used |= {name for _, name in hooks()}
    # Those that `__init__` imports by their names, and annotations in quotes.
    used |= {
        node.value
        for path in users
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    defined = [
        (node.name, path.relative_to(ROOT))
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("__")
    ]
    assert len(defined) > 500
    assert [item for item in defined if item[0] not in used] == []


def test_every_file_of_server_tests_is_marked() -> None:
    """Without the mark they run with the unit tests, each worker with a server of its own."""
    files = (ROOT / "tests" / "integration").glob("test_*.py")
    assert [path.name for path in files if "pytest.mark.server" not in path.read_text()] == []


def test_server_tests_lie_where_make_looks_for_them() -> None:
    tests = ROOT / "tests"
    marked = [path for path in tests.rglob("test_*.py") if "pytest.mark.server" in path.read_text()]
    folders = {path.relative_to(tests).parts[0] for path in marked} - {Path(__file__).name}
    makefile = (ROOT / "Makefile").read_text()
    named = re.search(r"^SERVER_TESTS = .*\n.*\$\(addprefix tests/,([a-z ]*)\)", makefile, re.M)
    assert named, "the Makefile has no SERVER_TESTS with folders"
    # Those of bulk need Ray: make bulk-test.
    assert folders == {*named[1].split(), "bulk"}


KEYS_OF_CONCH = {
    *(
        "bulk/worker.py",
        "catalogue/models.py",
        "component/features.py",
        "families/kokoro/components.py",
    ),
    *("families/speakers/components.py", "families/turns/end_of_turn.py", "gateway/openapi.py"),
    *(
        "decoding/graph/fst_arrays.py",
        "packaged.py",
        "recognition/hooks.py",
        "scoring/error_rates.py",
    ),
}
"""Files with caches of any size: no client chooses what these are asked for."""


def test_every_cache_has_a_bound() -> None:
    unbounded = set()
    for path in (SRC / "conch").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^from functools import.*\bcache\b|functools\.cache\b", text, re.M):
            unbounded.add(str(path.relative_to(SRC / "conch")))
        uses = re.findall(r"(?<!import )\blru_cache\b(?!,)(\((?:maxsize=)?(?!None)\w+\))?", text)
        assert all(uses), f"{path}: a size is missing"
    assert unbounded == KEYS_OF_CONCH
