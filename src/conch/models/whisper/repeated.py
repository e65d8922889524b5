"""Find texts that repeat the prompt in place of what was said.

Where Whisper hears nobody, it goes on with the prompt: it says it again, or some of its words. The
guards against invented texts do not see it, since with the prompt such a text is probable.
"""

import re
from collections.abc import Sequence

UNSURE_SPEECH = 0.2
"""Probability of no speech above which a prompt is not trusted. On dev (30 utterances, 9 prompts)
it is at most 0.06 for speech; of noise with an invented text it is at least 0.29."""
LEAST_WORDS = 3
"""Words of the prompt in a row that begin a text which may repeat it."""
REPEATED_MARGIN = 1.0
"""Nats for each token of the text: without the prompt, words that were said are hardly less
probable than what Whisper then hears."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # noqa: RUF001
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f]")


def repeats_prompt(text: str, prompt: str) -> bool:
    """Return whether a text may repeat its prompt: it is in it, or begins with a part of it.

    Case and punctuation do not count. Each character of a script without spaces is a word.

    Args:
        text: Best text of a segment.
        prompt: The text before.
    """
    said, before = _words(text), _words(prompt)
    if not said:
        return False
    lead = max((_common(said, before[first:]) for first in range(len(before))), default=0)
    return lead >= min(LEAST_WORDS, len(said))


def _words(text: str) -> list[str]:
    return _WORD.findall(_UNSPACED.sub(r" \g<0> ", text.lower()))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the start are equal."""
    return next(
        (index for index, pair in enumerate(zip(one, other)) if pair[0] != pair[1]),  # noqa: B905
        min(len(one), len(other)),
    )
