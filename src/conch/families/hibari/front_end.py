"""The `text_frontend` component: hibari's reading of English, used as a library."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from conch.component import Outputs, Row, RowByRow, bytes_array
from conch.component.niceness import be_nice
from conch.families.hibari.cleaning import Word, words_of
from conch.families.hibari.declaration import PACKAGE
from conch.packaged import packaged

LONGEST_BYTES = 10_000
VOCABULARY = "vocab.json"
SHA256 = {VOCABULARY: "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d"}
PAD = 0
"""Token around a sentence."""
PAUSES = frozenset(';:,.!?—…"()“” ')
"""Sounds that are no part of a word."""


def symbols() -> dict[int, str]:
    """Return the sound of each token but PAD."""
    path = packaged(PACKAGE, "assets", SHA256) / VOCABULARY
    return {token: sound for sound, token in json.loads(path.read_text("utf-8")).items()}


@dataclass(frozen=True, slots=True)
class FrontEndConfig:
    nice: int = 5
    """Least niceness of the process, 0 to 19: with more than 0, live streams of recognition go
    first."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Words of a text that were read together, and their sounds."""

    first: int
    last: int
    phonemes: str


class FrontEnd(RowByRow):
    def __init__(self, config: FrontEndConfig) -> None:
        be_nice(config.nice)
        self._tokens = {sound: token for token, sound in symbols().items()}
        # Where it is needed: the launcher asks for the class alone.
        from hibari.g2p import G2P
        from hibari.g2p.normalize import normalize

        self._normalize, self._g2p = normalize, G2P()
        self._g2p("Zyzzyva.")  # opens the network

    def answer(self, row: Row, /) -> Outputs:
        (text,) = row.texts("text", 1, LONGEST_BYTES)
        words = words_of(text)
        tokens, spans, phonemes = [PAD], [], ""
        for spoken in self._spoken(words, normalizes=row.parameters.get("normalize", True)):
            known = [sound for sound in spoken.phonemes if sound in self._tokens]
            if phonemes and known:
                phonemes += " "
                tokens.append(self._tokens[" "])
            first = len(tokens)
            phonemes += "".join(known)
            tokens += (self._tokens[sound] for sound in known)
            heard = [place for place, sound in enumerate(known, first) if sound not in PAUSES]
            if heard:
                ends = words[spoken.first].start, words[spoken.last].end
                spans.append((*ends, heard[0], heard[-1] + 1))
        tokens.append(PAD)
        if not spans:
            tokens, phonemes = [], ""
        return {
            "phonemes": bytes_array([phonemes]),
            "tokens": np.array(tokens, np.int32),
            "spans": np.array(spans, np.int32).reshape(-1, 4),
        }

    def _spoken(self, words: Sequence[Word], *, normalizes: bool) -> Iterator[Spoken]:
        """Yield the sounds of words; those that are read as one, such as 7:30 pm, together."""
        parts = [(number, part) for number, word in enumerate(words) for part in word.text.split()]
        text = " ".join(part for _, part in parts)
        read = self._sounds(self._normalize(text) if normalizes else text)
        before: Spoken | None = None
        for first, last, begin, end in aligned([part for _, part in parts], [w for w, _ in read]):
            sounds = " ".join(phonemes for _, phonemes in read[begin:end] if phonemes)
            spoken = Spoken(parts[first][0], parts[last][0], sounds)
            if before and spoken.first <= before.last:
                spoken = Spoken(before.first, spoken.last, f"{before.phonemes} {sounds}".strip())
            elif before:
                yield before
            before = spoken
        if before:
            yield before

    def _sounds(self, text: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        is_begun = False
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(text)):
            written, sounds = token.text, token.phonemes or ""
            if is_begun:
                before = found.pop()
                written, sounds = before[0] + written, before[1] + sounds
            found.append((written, sounds))
            is_begun = not token.whitespace
        return found


def aligned(written: Sequence[str], read: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield which words are read by which: first and last of one, begin and end of the other.

    All of `read` are in the answer, in order; words that nothing reads are not.
    """
    matcher = SequenceMatcher(None, written, read, autojunk=False)
    cuts = [(0, 0)]
    for block in matcher.get_matching_blocks():
        cuts += ((block.a + i, block.b + i) for i in range(block.size + 1))
    for (begin, read_begin), (end, read_end) in pairwise(cuts):
        if read_end > read_begin:
            first = min(begin, len(written) - 1)
            yield first, max(first, end - 1), read_begin, read_end
