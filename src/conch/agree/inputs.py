"""The recordings to label: files, folders, globs and manifests on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conch.bulk.inputs import Source, relative_to, sources_of
from conch.scoring.manifest import manifest_rows, spread
from conch.wire.errors import AgreeError


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording."""

    source: Source
    columns: Mapping[str, str] = field(default_factory=dict)
    """Fields of its line in a manifest."""

    @property
    def path(self) -> Path:
        """Absolute path of the file."""
        return Path(self.source.path)

    @property
    def language(self) -> str:
        """Code of the language; empty if no manifest tells it."""
        return self.columns.get("language", "").strip()


def clips_of(
    names: Sequence[str],
    *,
    split: str | None = None,
    source: str | None = None,
    limit: int | None = None,
) -> list[Clip]:
    """Return the recordings of all inputs, in order and each once.

    Args:
        names: Folders, globs, manifests (.tsv with a column path) and files.
        split: Only lines of manifests with this split.
        source: Only lines of manifests with this source.
        limit: Largest number of recordings; see `conch.scoring.manifest.spread`.

    Raises:
        AgreeError: an input is not on this machine, or no recording is left.
        BulkError: an input cannot be read, or holds nothing.
        BenchError: a manifest has a broken line.
    """
    lines = {path: fields for name in names for path, fields in _lines(name).items()}
    clips = [Clip(item, lines.get(item.path, {})) for item in sources_of(names)]
    for clip in clips:
        if clip.source.row >= 0 or "://" in clip.source.path:
            raise AgreeError(f"{clip.source.id}: takes files on this machine, which a label names")
    wanted = {key: value for key, value in (("split", split), ("source", source)) if value}
    kept = [
        clip
        for clip in clips
        if all(clip.columns.get(key) == value for key, value in wanted.items())
    ]
    if not kept:
        asked = " and ".join(f"{key} {value}" for key, value in wanted.items())
        raise AgreeError(f"no line of a manifest has {asked}")
    return spread(kept, limit)


def _lines(name: str) -> dict[str, dict[str, str]]:
    """Return the fields of each line of a manifest, by the absolute path of its recording."""
    path = Path(name).absolute()
    if path.suffix != ".tsv" or not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AgreeError(f"{name} cannot be read: {error}") from None
    rows = manifest_rows(name, text, required=("path",))
    return {relative_to(str(path), fields["path"].strip()): fields for fields in rows}
