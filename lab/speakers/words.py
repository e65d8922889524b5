"""How many words of a conversation are given to the wrong speaker."""

import re
from collections.abc import Mapping, Sequence

from conch.wire.result import Transcript
from lab.speakers.turns import Turn

_MARKS = re.compile(r"[^\w' ]")


def wrong_words(
    said: Sequence[Turn], transcript: Transcript, naming: Mapping[str, str]
) -> tuple[int, int]:
    """Return the words with the wrong speaker, and all words that were recognised.

    Those are the words that are right or that stand for another one (WDER, Shafey et al., 2019,
    https://arxiv.org/abs/1907.05337). Where utterances overlap, the reference has one after the
    other and the transcript may not, so that perfect labels have errors too.

    Args:
        said: The utterances with their texts.
        transcript: The answer.
        naming: The speaker whom each found one stands for.
    """
    import jiwer

    reference = [
        (word, turn.speaker)
        for turn in sorted(said, key=lambda turn: turn.start)
        for word in _plain(turn.text)
    ]
    found = [
        (word, naming.get(str(item.speaker), ""))
        for item in sorted(transcript.words, key=lambda item: item.start)
        for word in _plain(item.text)
    ]
    if not reference or not found:
        return 0, 0
    said_text, found_text = (" ".join(word for word, _ in words) for words in (reference, found))
    wrong = total = 0
    for chunk in jiwer.process_words(said_text, found_text).alignments[0]:
        if chunk.type in ("equal", "substitute"):
            pairs = zip(
                reference[chunk.ref_start_idx : chunk.ref_end_idx],
                found[chunk.hyp_start_idx : chunk.hyp_end_idx],
                strict=True,
            )
            owners = [(theirs, ours) for (_, theirs), (_, ours) in pairs]
            total += len(owners)
            wrong += sum(theirs != ours for theirs, ours in owners)
    return wrong, total


def _plain(text: str) -> list[str]:
    return _MARKS.sub(" ", text.lower()).split()
