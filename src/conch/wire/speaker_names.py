"""Names that take the place of the labels of speakers, as in `A=Ann,B=Ben`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from conch.wire.errors import OptionError
from conch.wire.known_speakers import check_name
from conch.wire.limits import clipped
from conch.wire.result import Segment, Speaker, Transcript, Turn, Word

_Spoken = TypeVar("_Spoken", Segment, Turn, Word)


def names_of(text: str) -> dict[str, str]:
    """Return names by label; raise an OptionError that says which part is wrong."""
    names: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        label, _, name = (piece.strip() for piece in part.partition("="))
        problem = check_name(name) if label and name else "a part has no label or no name"
        if problem or label in names:
            why = problem or "the label has a name already"
            raise OptionError.of("speaker_names", f"labels with names, as A=Ann,B=Ben: {why}", part)
        names[label] = name
    return names


def check_names(names: Mapping[str, str]) -> None:
    """Raise an OptionError for a name that no speaker can have."""
    for name in names.values():
        if problem := check_name(name):
            raise OptionError(f"option 'speaker_names': {problem}; sent: {clipped(name)!r}")


def unknown_label(transcript: Transcript, names: Mapping[str, str]) -> str:
    """Return what is wrong with names whose label no speaker has; empty if nothing is."""
    if not names:
        return ""
    spoken: list[Segment | Turn | Word] = [*transcript.segments, *transcript.turns]
    spoken += transcript.words
    labels = {str(item.speaker) for item in spoken if item.speaker}
    label = next((label for label in names if label not in labels), None)
    if label is None:
        return ""
    there = clipped(", ".join(sorted(labels))) or "none"
    return (
        f"option 'speaker_names' names the speaker {clipped(label)}, whom this transcript lacks; "
        f"its speakers: {there}; sent: {clipped(f'{label}={names[label]}')!r}"
    )


def with_names(transcript: Transcript, names: Mapping[str, str]) -> Transcript:
    """Return a whole transcript with names, and a warning about a label that nobody has."""
    problem = unknown_label(transcript, names)
    warnings = (*transcript.warnings, *([problem] if problem else []))
    return replace(renamed(transcript, names), warnings=warnings)


def renamed(transcript: Transcript, names: Mapping[str, str]) -> Transcript:
    """Return a transcript with names. Who has the same name is one speaker."""
    if not names:
        return transcript

    def name_of(label: str) -> str:
        return names.get(label, label)

    def named(items: Iterable[_Spoken]) -> tuple[_Spoken, ...]:
        return tuple(
            replace(item, speaker=name_of(str(item.speaker))) if item.speaker else item
            for item in items
        )

    def segments(items: Iterable[Segment]) -> tuple[Segment, ...]:
        return tuple(replace(item, words=named(item.words)) for item in named(items))

    speakers: dict[str, Speaker] = {}
    for item in transcript.speakers:
        name = name_of(item.name)
        first = speakers.get(name, replace(item, name=name, seconds=0.0))
        speakers[name] = replace(first, seconds=first.seconds + item.seconds)
    return replace(
        transcript,
        segments=segments(transcript.segments),
        revised=segments(transcript.revised),
        turns=named(transcript.turns),
        relabelled=named(transcript.relabelled),
        speakers=tuple(speakers.values()),
        overlaps=tuple(
            replace(item, speakers=tuple(dict.fromkeys(map(name_of, item.speakers))))
            for item in transcript.overlaps
        ),
    )
