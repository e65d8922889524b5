"""Checks deploy/kubernetes against the schemas of Kubernetes.

    python scripts/check_kubernetes.py

Where kubectl or kustomize is installed, it checks what they build: the base and each overlay. Else
it checks each file that a kustomization lists as a resource; patches are then left out.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

ROOT = Path(__file__).parents[1] / "deploy" / "kubernetes"

OLDEST = "1.29"
"""Oldest version of Kubernetes that the manifests are for; the other that is checked is the newest
that kubernetes-validate knows."""

OTHERS = ("serving.kserve.io/",)
"""API groups that are no part of Kubernetes: their kinds have no schema here."""

BUILDERS = (("kubectl", "kustomize"), ("kustomize", "build"))
"""Programs that build a folder, and their verbs. The kustomizations need version 5 of kustomize,
which kubectl 1.27 has; Debian 12 has kubectl 1.20."""


def folders() -> list[Path]:
    return [ROOT / "base", *sorted((ROOT / "overlays").iterdir())]


def builder() -> list[str] | None:
    """Return the command that builds a folder, or None where there is none, or only an old one."""
    for program, verb in BUILDERS:
        path = shutil.which(program)
        if path and kustomize_version(path) >= 5:
            return [path, verb]
    return None


def kustomize_version(program: str) -> int:
    """Return the major version of the kustomize that a program has or is; 0 for an unknown one."""
    flags = ["--client"] if Path(program).name == "kubectl" else []
    done = subprocess.run([program, "version", *flags], capture_output=True, text=True)
    match = re.search(r"(?:Kustomize Version: |^)v(\d+)\.", done.stdout, re.MULTILINE)
    return int(match[1]) if match else 0


def built(folder: Path, command: list[str]) -> list[Any]:
    """Return the manifests that a command makes of a folder."""
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder.relative_to(ROOT)}: {done.stderr.strip()}")
    return list(yaml.safe_load_all(done.stdout))


def resources(folder: Path) -> Iterator[Any]:
    """Yield the manifests in the files that a kustomization and those below it list."""
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = folder / name
        if path.is_dir():
            yield from resources(path)
        else:
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def problems(manifest: Any) -> Iterator[str]:
    """Yield what is wrong with a manifest, by version of Kubernetes."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    if manifest["apiVersion"].startswith(OTHERS):
        return
    for version in dict.fromkeys((OLDEST, kubernetes_validate.latest_version())):
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            where = ".".join(map(str, error.path))
            yield f"{name}, Kubernetes {version}: {where}: {error.message[:300]}"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield f"{name}, Kubernetes {version}: {error.message}"


def main() -> int:
    command = builder()
    if command is None:
        print("conch: no kubectl 1.27 or kustomize 5 here: overlays are checked without patches")
    wrong = [
        f"{folder.relative_to(ROOT)}: {problem}"
        for folder in folders()
        for manifest in (built(folder, command) if command else resources(folder))
        for problem in problems(manifest)
    ]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
