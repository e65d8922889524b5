"""Parts that can be deleted as a folder, with their line in one registry."""

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from subprocesses import output_of

SRC = Path(__file__).parents[1] / "src"
REGISTRY = "conch.families"
SHARED = {"attention", "search", "speech"}
"""Folders below `families` that several families stand on, and that are no families."""
FAMILIES = sorted(
    path.name
    for path in (SRC / "conch" / "families").iterdir()
    if (path / "__init__.py").is_file() and path.name not in SHARED
)
STANDS_ON = {
    "ctc": {"cli.graph", "families.funasr", "families.wenet"},
    "hibari": {"families.kokoro", "families.piper"},
    "silero": {"bulk"},
    "speakers": {"families.kokoro"},
    # Other decoders declare by its options for which requests they are the default.
    "whisper": set(),
}
"""Families that others use: those must go with them."""
PARTS = {
    "bench": {"cli.bench"},
    "bulk": {"cli.agree", "cli.bulk", "pseudo_labels"},
    "deploy": {"cli.deploy", "cli.models"},
    "gateway.riva": set(),
    "gateway.wyoming": set(),
    "graphs": {"cli.graph"},
    "pseudo_labels": {"cli.agree"},
}
"""Other parts, and what uses them: their commands."""


def named_in(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, or names as `module:function`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def uses() -> dict[str, set[str]]:
    """Return what each module names."""
    return {module_of(path): {*named_in(path)} for path in (SRC / "conch").rglob("*.py")}


@pytest.mark.parametrize("part", [*PARTS, *(f"families.{name}" for name in FAMILIES)])
def test_only_its_registry_and_its_commands_use_a_part(
    uses: dict[str, set[str]], part: str
) -> None:
    package = f"conch.{part}"
    users = {
        module
        for module, used in uses.items()
        if not is_in(module, package) and any(is_in(name, package) for name in used)
    }
    family = part.removeprefix("families.")
    may = PARTS.get(part, STANDS_ON.get(family, set()))
    others = {
        module
        for module in users - {REGISTRY}
        if not any(is_in(module, f"conch.{item}") for item in may)
    }
    assert not others, f"{package} cannot be deleted: {sorted(others)} use it"


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*STANDS_ON}))
def test_without_a_family_the_others_are_there(family: str, tmp_path: Path) -> None:
    shutil.copytree(
        SRC / "conch", tmp_path / "conch", ignore=shutil.ignore_patterns("__pycache__", "page")
    )
    shutil.rmtree(tmp_path / "conch" / "families" / family)
    registry = tmp_path / "conch" / "families" / "__init__.py"
    text = registry.read_text()
    line = rf"from conch\.families\.{family} import (\w+)(?: as (\w+))?\n"
    names = [new or old for old, new in re.findall(line, text)]
    assert names, f"no line of {family} in {registry}"
    text = re.sub(line, "", text)
    for name in names:
        text = re.sub(rf"\b{name}\b,? ?", "", text)
    registry.write_text(text)
    program = """
from conch.cli import build_parser
from conch.families import FAMILIES
from conch.wire.options import RecognitionOptions
build_parser()
print(RecognitionOptions.parse({}).decoder, *(family.name for family in FAMILIES))
"""
    said = output_of(sys.executable, "-c", program, env={"PYTHONPATH": str(tmp_path)})
    default, *left = said.split()
    assert left and family not in left
    assert default == ("attention" if family == "moonshine" else "moonshine")
