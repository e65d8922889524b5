"""The options of the CTC beam search."""

from dataclasses import dataclass

from conch.wire.errors import OptionError

NO_LIMIT = -100.0
"""Of `unit_min_log_prob`: at or under it no unit is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcSearchOptions:
    """The options of one search."""

    beam_size: int = 10
    """Prefixes kept after each frame."""
    language_model: bool = False
    """Whether to use shallow fusion with the search's n-gram."""
    lm_weight: float = 0.5
    """Weight of the n-gram's score; unused without `language_model`."""
    word_bonus: float = 1.0
    """Nats added for each word; unused without `language_model`."""
    prune_history: bool = True
    """Whether to drop prefixes that differ from a better one only in words the n-gram forgot.

    That makes room in the beam, but n-best lists hold fewer texts: choose False for these.
    """
    unit_min_log_prob: float = -5.0
    """Least log posterior of a unit in a frame, as pyctcdecode's `token_min_logp`.

    The search skips the other units, except the best one. -100 or less skips none.
    """
    skip_blank_above: float = 1.0
    """Probability of the blank above which every other unit is left out of a frame; 1 is off.
    Frames that have but the blank cost next to nothing where they follow each other. The surer
    the model, the more that saves: with 0.95 a tenth of the time was seen, at 0.1 points of WER."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OptionError: a value is out of range.
        """
        if not 1 <= self.beam_size <= 512:
            raise _out_of_range("beam_size", "an integer from 1 to 512", self.beam_size)
        if not 0 <= self.lm_weight <= 10:
            raise _out_of_range("lm_weight", "a number from 0 to 10", self.lm_weight)
        if not -20 <= self.word_bonus <= 20:
            raise _out_of_range("word_bonus", "a number from -20 to 20", self.word_bonus)
        if not self.unit_min_log_prob <= 0:
            raise _out_of_range("unit_min_log_prob", "a number up to 0", self.unit_min_log_prob)
        if not 0.5 <= self.skip_blank_above <= 1:
            raise _out_of_range("skip_blank_above", "a number from 0.5 to 1", self.skip_blank_above)


def _out_of_range(name: str, wanted: str, sent: object) -> OptionError:
    return OptionError(f"option '{name}' takes {wanted}; sent: {sent!r:.80}")
