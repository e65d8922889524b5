"""Prints the packages that an extra of Conch installs, without Conch: for layers of an image.

    python scripts/requirements.py EXTRA… [--without PACKAGE…]

The file pyproject.toml lies in the working directory. The lines are those of a requirements file.
"""

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import tomllib

OWN_EXTRAS = re.compile(r"conch\[([\w,]+)\]")


def requirements(
    extras: Collection[str],
    dependencies: Sequence[str],
    optional: Mapping[str, Sequence[str]],
    without: Collection[str] = (),
) -> list[str]:
    """Return the requirements of Conch and of `extras`, each once.

    The extras that these name in turn count too. `optional` has the requirements by extra.
    """
    lines = list(dependencies)
    todo = list(extras)
    seen = set()
    while todo:
        extra = todo.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in optional:
            raise SystemExit(f"no extra {extra!r}: there are {', '.join(sorted(optional))}")
        for line in optional[extra]:
            if own := OWN_EXTRAS.fullmatch(line):
                todo += own[1].split(",")
            else:
                lines.append(line)
    if unknown := set(without) - set(map(name_of, lines)):
        raise SystemExit(f"--without: nothing installs {', '.join(sorted(unknown))}")
    return [line for line in dict.fromkeys(lines) if name_of(line) not in without]


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None, requirement
    return match[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="The packages of an extra of Conch.")
    parser.add_argument("extras", nargs="+", metavar="EXTRA")
    parser.add_argument("--without", nargs="+", default=[], metavar="PACKAGE")
    args = parser.parse_args()
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = requirements(args.extras, project["dependencies"], optional, args.without)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
