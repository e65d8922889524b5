"""Which hooks each family offers, by name: a hook is imported when it is first used.

`conch.recognition.hooks` has the protocols of the hooks, and finds them here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyHooks:
    """The hooks of one family, each as `module:name`."""

    recognisers: Mapping[str, str] = field(default_factory=dict)
    """The `Recogniser` of each value of the option `decoder`."""
    first_passes: Mapping[str, str] = field(default_factory=dict)
    """What begins the `FirstPass` of a live stream, by the decoder of its search."""
    second_opinion: str = ""
    """Decoder that says whether there are words in a gap of another recogniser's text."""
    speech_finder: str = ""
    """The `SpeechFinder`."""
    text_scorers: tuple[str, ...] = ()
    """Each a `TextScorer`."""
    text_rewriters: tuple[str, ...] = ()
    """Each a `TextRewriter`."""
    after_recording: tuple[str, ...] = ()
    """Each an `AfterRecording`."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        several = (*self.text_scorers, *self.text_rewriters, *self.after_recording)
        by_decoder = (*self.recognisers.values(), *self.first_passes.values())
        return (*by_decoder, *several, *filter(None, (self.speech_finder,)))


FAMILY_HOOKS: tuple[FamilyHooks, ...] = (
    FamilyHooks(speech_finder="conch.families.silero.finder:SILERO"),
    FamilyHooks(text_scorers=("conch.families.smollm2.scorer:SMOLLM2",)),
    FamilyHooks(text_scorers=("conch.families.ngram.scorer:NGRAM",)),
    FamilyHooks(
        recognisers={
            "ctc": "conch.families.ctc.recogniser:BEAM",
            "wfst": "conch.families.ctc.recogniser:GRAPH",
        },
        first_passes={
            "ctc": "conch.families.ctc.first_pass:CtcFirstPass",
            "wfst": "conch.families.ctc.first_pass:CtcFirstPass",
        },
        second_opinion="wfst",
        text_scorers=("conch.families.ctc.recogniser:SCORER",),
    ),
    FamilyHooks(
        recognisers={"attention": "conch.families.whisper.recogniser:WHISPER"},
        text_scorers=("conch.families.whisper.recogniser:SCORER",),
    ),
    FamilyHooks(text_rewriters=("conch.families.punctuation.rewriter:PUNCTUATOR",)),
    FamilyHooks(text_rewriters=("conch.families.inverse_normalizer.rewriter:NORMALIZER",)),
)
"""In the order in which scorers are called and rewriters work."""
