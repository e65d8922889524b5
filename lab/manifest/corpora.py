"""Manifests of common speech corpora: LibriSpeech, Common Voice, AISHELL and Kaldi folders."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import soundfile

from conch.bench.load import progress
from conch.bench.samples import decode
from conch.scoring.manifest import Utterance
from conch.wire.errors import BenchError

AUDIO_SUFFIXES = (".flac", ".wav", ".ogg", ".opus", ".mp3")
"""Suffixes of LibriSpeech's files, best first: the corpus is often converted."""
COMMON_VOICE_SPLITS = ("train", "dev", "test")
"""Splits, each with its table; `validated` replaces missing tables."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The content of a folder."""

    layout: str
    """Name of the layout that was recognised."""
    utterances: tuple[Utterance, ...]
    """Utterances whose files exist."""
    missing: tuple[Path, ...]
    """Missing files that have a text."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the files of a corpus are arranged."""

    name: str
    looked_for: str
    """Files that show the layout, in words."""
    read: Callable[[Path, Path], list[Utterance]]
    """From the folder, and a folder for files to be made, to its utterances; none if the folder is
    of another layout."""


def read_corpus(folder: Path, cut: Path) -> Corpus:
    """Return the utterances of a corpus, of the first layout that fits.

    Args:
        folder: of the corpus.
        cut: folder for utterances that are cut out of files; created if needed.

    Raises:
        BenchError: the folder is of no known layout, has no audio, or cannot be used as it is.
    """
    if not folder.is_dir():
        raise BenchError(f"{folder} is not a folder")
    for layout in LAYOUTS:
        utterances = layout.read(folder, cut)
        if utterances:
            return _existing(folder, layout, utterances)
    known = "; ".join(f"{layout.looked_for} ({layout.name})" for layout in LAYOUTS)
    raise BenchError(f"{folder} holds no speech of a known layout; looked for: {known}")


def _existing(folder: Path, layout: Layout, utterances: Iterable[Utterance]) -> Corpus:
    there: list[Utterance] = []
    missing: list[Path] = []
    for utterance in utterances:
        if utterance.path.is_file():
            there.append(utterance)
        else:
            missing.append(utterance.path)
    if not there:
        raise BenchError(
            f"{folder} has the texts of {layout.name}, but none of {len(missing)} audio files, "
            f"such as {missing[0]}"
        )
    return Corpus(layout.name, tuple(there), tuple(missing))


def _librispeech(folder: Path, _: Path) -> list[Utterance]:
    """Read SPLIT/SPEAKER/CHAPTER/*.trans.txt, of any of these folders."""
    return [
        Utterance(
            path=_with_suffix(file.parent / name),
            text=text,
            split=file.resolve().parents[2].name,
            source="librispeech",
        )
        for file in sorted(folder.rglob("*.trans.txt"))
        for name, text in _keyed(file)
    ]


def _common_voice(folder: Path, _: Path) -> list[Utterance]:
    """Read the tables of a language, whose recordings are in clips/."""
    if not (folder / "clips").is_dir():
        return []
    splits = [name for name in COMMON_VOICE_SPLITS if (folder / f"{name}.tsv").is_file()]
    return [
        Utterance(folder / "clips" / path, sentence, split, "common_voice")
        for split in splits or ["validated"]
        for path, sentence in _common_voice_table(folder / f"{split}.tsv")
    ]


def _common_voice_table(file: Path) -> Iterator[tuple[str, str]]:
    if not file.is_file():
        return
    header, *lines = _lines(file)
    columns = header.split("\t")
    if not {"path", "sentence"} <= set(columns):
        raise BenchError(f"{file} has no columns path and sentence; found: {', '.join(columns)}")
    path, sentence = columns.index("path"), columns.index("sentence")
    for line in lines:
        fields = line.split("\t")
        if len(fields) > max(path, sentence):
            yield fields[path], _one_line(fields[sentence])


def _aishell(folder: Path, _: Path) -> list[Utterance]:
    """Read transcript/aishell_transcript*.txt and wav/SPLIT/SPEAKER/*.wav."""
    inner = folder / "data_aishell"
    root = inner if inner.is_dir() else folder
    transcripts = sorted((root / "transcript").glob("aishell_transcript*.txt"))
    if not transcripts:
        return []
    # The text does not say the folder of its file.
    files = {path.stem: path for path in sorted((root / "wav").rglob("*.wav"))}
    return [
        Utterance(path, text, path.relative_to(root / "wav").parts[0], "aishell")
        for file in transcripts
        for name, text in _keyed(file)
        for path in [files.get(name, root / "wav" / "unknown" / f"{name}.wav")]
    ]


def _kaldi(folder: Path, cut: Path) -> list[Utterance]:
    """Read wav.scp and text, and with segments cut the recordings."""
    if not ((folder / "wav.scp").is_file() and (folder / "text").is_file()):
        return []
    recordings = {
        name: _kaldi_path(folder, name, path) for name, path in _keyed(folder / "wav.scp")
    }
    segments = folder / "segments"
    texts = dict(_keyed(folder / "text"))
    if segments.is_file():
        paths = _cut_segments(segments, recordings, texts, cut)
    else:
        paths = {name: path for name, path in recordings.items() if name in texts}
    if not paths:
        raise BenchError(f"{folder}: text names no utterance of wav.scp or segments")
    split = folder.resolve().name
    return [Utterance(path, texts[name], split, "kaldi") for name, path in paths.items()]


def _kaldi_path(folder: Path, name: str, path: str) -> Path:
    if path.endswith("|"):
        raise BenchError(
            f"{folder / 'wav.scp'}: recording {name} is a command ({path}), which is not run; "
            "write its output to a file and name that"
        )
    # Kaldi takes them as relative to where it is started.
    own = folder / path
    return own if own.is_file() else Path(path)


def _cut_segments(
    segments: Path, recordings: dict[str, Path], texts: dict[str, str], cut: Path
) -> dict[str, Path]:
    """Write each segment with a text to a separate file; return the files."""
    lines = [(name, line.split()) for name, line in _keyed(segments) if name in texts]
    by_recording: dict[str, list[tuple[str, float, float]]] = {}
    for name, fields in lines:
        try:
            recording, start, end = fields
            span = (name, float(start), float(end))
        except ValueError:
            raise BenchError(
                f"{segments}: utterance {name} takes a recording, a start and an end in seconds; "
                f"found: {' '.join(fields)}"
            ) from None
        if recording not in recordings:
            raise BenchError(f"{segments}: utterance {name} is of {recording}, not in wav.scp")
        by_recording.setdefault(recording, []).append(span)
    cut.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    with progress("cutting", len(by_recording)) as bar:
        for recording, spans in by_recording.items():
            files |= _cut(recordings[recording], spans, cut)
            bar.update()
    return {name: files[name] for name, _ in lines}


def _cut(
    path: Path, spans: Iterable[tuple[str, float, float]], folder: Path
) -> Iterator[tuple[str, Path]]:
    whole = decode(path)
    for name, start_s, end_s in spans:
        waveform = whole.waveform[
            max(0, round(start_s * whole.sample_rate)) : round(end_s * whole.sample_rate)
        ]
        if not len(waveform):
            raise BenchError(
                f"utterance {name}, {start_s:g} to {end_s:g} s, holds no samples: {path} lasts "
                f"{whole.duration_s:g} s"
            )
        file = folder / f"{quote(name, safe='')}.flac"
        soundfile.write(file, waveform, whole.sample_rate, subtype="PCM_16")
        yield name, file


def _keyed(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the first word and the rest of each line."""
    for line in _lines(file):
        name, *rest = line.split(maxsplit=1)
        yield name, _one_line("".join(rest))


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{file} cannot be read: {error}") from None
    # Not splitlines, which takes rare characters of a text for line ends.
    return [line.strip("\r") for line in text.split("\n") if line.strip()]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _with_suffix(path: Path) -> Path:
    found = [path.with_name(path.name + suffix) for suffix in AUDIO_SUFFIXES]
    return next((file for file in found if file.is_file()), found[0])


LAYOUTS = (
    Layout("LibriSpeech", "*.trans.txt in any folder below", _librispeech),
    Layout(
        "Common Voice", "train.tsv, dev.tsv, test.tsv or validated.tsv, and clips", _common_voice
    ),
    Layout("AISHELL", "transcript/aishell_transcript*.txt and wav", _aishell),
    Layout("Kaldi", "wav.scp and text, segments optionally", _kaldi),
)
