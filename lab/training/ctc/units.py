"""Units learned from texts, and the text of the best unit of each frame."""

from collections.abc import Sequence

import tokenizers

from conch.decoding.units import BLANK, Subwords


def learned_subwords(texts: Sequence[str], size: int) -> Subwords:
    """Learn units from texts; `size` counts them without the blank."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    tokenizer.train_from_iterator(
        texts, tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False)
    )
    return Subwords(tokenizer.to_str())


def greedy_text(best: Sequence[int], vocab: Sequence[str]) -> str:
    """Return the text of the best unit of each frame: repetitions joined, blanks left out.

    >>> greedy_text([0, 3, 3, 0, 3, 1, 4], ("", " ", "'", "a", "b"))
    'aa b'
    """
    previous = BLANK
    text = ""
    for unit in best:
        if unit != previous:
            text += vocab[unit]
        previous = unit
    return " ".join(text.split())
