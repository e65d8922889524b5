"""The option `voice`: a voice, or several with their shares."""

from collections.abc import Mapping

from conch.families import voices, voices_that_stand_for
from conch.families.family import Synthesizer
from conch.wire.errors import OptionError
from conch.wire.known_speakers import KnownSpeaker, known_speakers_of

REFERENCES = "CONCH_VOICES_FROM_RECORDINGS"
"""Environment variable of `tritonserver`: whether requests may have the option `reference`."""
MOST_MIXED = 8
MOST_REFERENCE = 5_000_000
"""Characters of a reference: 20 s of stereo in base64 take as many."""


def shares_of(voice: str) -> Mapping[str, float]:
    """Return the shares of the voices that are mixed, in sum 1; of one voice alone, 1.

    Args:
        voice: A name, or that of one of its speakers, `NAME#SPEAKER`; or several with commas, each
            with its share behind a colon, or 1 without.

    Raises:
        OptionError: it names another voice, voices of different models, or one that cannot be
            mixed, or a share is not above 0.
    """
    known = voices()
    voice = voices_that_stand_for().get(voice, voice)
    name = voice if voice in known else voice.rpartition("#")[0]
    if name in known and (name == voice or known[name].has_speakers):
        return {name: 1.0}
    shares: dict[str, float] = {}
    for part in voice.split(","):
        name, _, share = part.strip().partition(":")
        try:
            shares[name.strip()] = shares.get(name.strip(), 0.0) + float(share or 1)
        except ValueError:
            raise _wrong("takes a number as the share of a voice", voice) from None
    if unknown := [name for name in shares if name not in known]:
        mixed = [name for name, item in known.items() if item.mixes]
        hint = f", or a mix such as {mixed[0]}:0.4,{mixed[-1]}:0.6" if mixed else ""
        takes = f"takes one of {', '.join(known)}{hint}, or a voice of conch serve --piper FOLDER"
        raise _wrong(takes, unknown[0])
    if len({known[name] for name in shares}) > 1 or not known[next(iter(shares))].mixes:
        raise _wrong("takes a mix of voices of one model that can be mixed", voice)
    if len(shares) > MOST_MIXED or not all(0 < share <= 1000 for share in shares.values()):
        raise _wrong(f"takes a mix of at most {MOST_MIXED} voices with shares above 0", voice)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def synthesizer_of(voice: str) -> Synthesizer:
    """Return what speaks a voice or a mix; raise an OptionError if `shares_of` does not know it."""
    return voices()[next(iter(shares_of(voice)))]


def reference_of(text: str) -> KnownSpeaker | None:
    """Return the speaker of `reference`, None if it is empty; raise an OptionError if wrong."""
    try:
        found = known_speakers_of(text)
    except OptionError as error:
        raise OptionError(str(error).replace("'known_speakers'", "'reference'")) from None
    if len(found) > 1 or (text.strip() and not found):
        raise OptionError(f"option 'reference' takes one entry; sent: {len(found)}")
    return found[0] if found else None


def _wrong(takes: str, sent: str) -> OptionError:
    return OptionError(f"option 'voice' {takes}; sent: {sent!r:.100}")
