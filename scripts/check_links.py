"""Checks the links of every Markdown file of the project, and that the built site needs no network.

    python scripts/check_links.py

MkDocs checks the pages in docs/ itself; this checks the other files too, such as README.md.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"

FENCE = re.compile(r"^(```|~~~).*?^\1", flags=re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+?)\s*$", flags=re.M)
LOADED = re.compile(
    r"<(?:script|img|link rel=\"stylesheet\")[^>]*?(?:src|href)=\"(https?://[^\"]+)"
)


def broken_links(path: Path) -> Iterator[str]:
    """Yield what is wrong with the links of one Markdown file."""
    for target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        if not linked.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(linked):
            yield f"{target}: no such heading"


def anchors(path: Path) -> set[str]:
    """Return the anchors that the headings of a Markdown file make."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {slug(heading) for heading in HEADING.findall(text)}


def slug(heading: str) -> str:
    """Return the anchor of a heading, the same on GitHub and by MkDocs."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def loaded_from_elsewhere(page: Path) -> list[str]:
    """Return the scripts, styles and pictures that a page of the site loads from the network."""
    return LOADED.findall(page.read_text(encoding="utf-8"))


def documents() -> list[Path]:
    """Return the Markdown files that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split() if (path := ROOT / name).is_file()]


def main() -> int:
    wrong = [
        f"{path.relative_to(ROOT)}: {why}" for path in documents() for why in broken_links(path)
    ]
    for page in SITE.rglob("*.html"):
        wrong += [f"{page.relative_to(ROOT)} loads {url}" for url in loaded_from_elsewhere(page)]
    print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
