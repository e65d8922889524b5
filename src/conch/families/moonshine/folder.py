"""Folders of Moonshine's models, checked without loading."""

from pathlib import Path

from conch.catalogue.checks import ModelSummary, check_files
from conch.families.moonshine.declaration import FILES, GRAPH_FILES


def check_moonshine(folder: Path) -> ModelSummary:
    return check_files((FILES, GRAPH_FILES), folder)
