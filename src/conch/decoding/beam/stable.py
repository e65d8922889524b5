"""What of a partial text will not change any more."""

from itertools import takewhile

from conch.decoding.beam.arrays import on_host
from conch.decoding.beam.prefix import emissions_of
from conch.decoding.beam.state import SearchState
from conch.decoding.vocab import CtcVocab


def stable_text(state: SearchState, vocab: CtcVocab) -> str:
    """Return the whole words with which every text begins that the search still holds.

    A search only ever extends what it holds, so that no later frame can change them.
    """
    alive = on_host(state.beam_state.beam.is_alive()).reshape(-1)
    spellings = [
        emissions_of(tip).units for tip, is_alive in zip(state.tips, alive, strict=True) if is_alive
    ]
    same = (len(set(units)) == 1 for units in zip(*spellings, strict=False))
    common = spellings[0][: sum(takewhile(bool, same))]
    opens = [index for index, unit in enumerate(common) if vocab.texts[unit].startswith(" ")]
    # What follows the last space may still grow.
    return vocab.text_of(common[: opens[-1]]) if opens else ""
