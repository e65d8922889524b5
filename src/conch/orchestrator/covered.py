"""The path of one segment to a text that leaves no speech out.

The decoder's text is held against the speech by its alignment. Only where they disagree is more
called: a CTC model as a witness of the doubtful stretch, and then encoder and decoder once more,
on the parts into which the stretch cuts the segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from conch.coverage import CERTAIN_S, Hole, cut_near, holes, within_speech
from conch.decoding.nbest import joined
from conch.errors import ComponentError, OptionError
from conch.metrics import HOLES, UNRECOGNISED_SECONDS
from conch.options import RecognitionOptions
from conch.orchestrator import ctc_roles
from conch.orchestrator.calls import Calls
from conch.orchestrator.segment import SpeechSegment, recognize_segment
from conch.result import Segment, Unrecognised, Word

CERTAIN_WORDS, DOUBTFUL_WORDS = 2, 3
"""Words that a witness must hear in a hole besides those that have a text."""
MAX_DEPTH = 3
"""How often a part may be cut again."""
MIN_PART_S = 0.4
"""Parts shorter than this are not worth a call."""


@dataclass(frozen=True, slots=True)
class Testimony:
    """What the witness heard in a stretch."""

    text: str

    @property
    def num_words(self) -> int:
        return len(self.text.split())


async def recognize_covered(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls, depth: int = 0
) -> Segment:
    """Return a segment's text, words included, of all its speech as far as that can be had.

    What stays without a text is in `Segment.unrecognised`.

    Args:
        speech: the segment.
        options: of the request.
        calls: of the request.
        depth: how many cuts the segment is the part of.
    """
    found = await recognize_segment(speech, options, calls)
    if options.decoder != "attention" or not options.coverage:
        return found
    return await _covered(found, speech, options, calls, depth)


async def _covered(
    found: Segment, speech: SpeechSegment, options: RecognitionOptions, calls: Calls, depth: int
) -> Segment:
    """Return what was found, or more where its text leaves speech out."""
    threshold = options.vad_threshold
    words = _shifted(found.words, -speech.start)
    timed = within_speech(words, speech.speech_probs, threshold)
    found = replace(found, words=_shifted(timed, speech.start))
    for hole in holes(words, speech.speech_probs, threshold):
        edges = _edges(hole, len(words), speech)
        testimony = await _testimony(speech.part(*edges), options, calls)
        if _is_believed(hole, testimony):
            break
        calls.count(HOLES, outcome="refuted")
    else:
        return found
    parts = _parts(edges, speech) if depth < MAX_DEPTH else []
    if len(parts) > 1:
        segments = [await recognize_covered(part, options, calls, depth + 1) for part in parts[1:]]
        if hole.first == len(words):
            # Of a text that ends too early all hypotheses are of the part before its end.
            head = await _covered(found, parts[0], options, calls, depth + 1)
        else:
            head = await recognize_covered(parts[0], options, calls, depth + 1)
        whole = _joined([head, *segments], options.nbest)
        if len(whole.words) > len(found.words):
            calls.count(HOLES, outcome="filled")
            return replace(whole, start=found.start, end=found.end)
    calls.count(HOLES, outcome="unrecognised")
    calls.count(UNRECOGNISED_SECONDS, edges[1] - edges[0])
    start, end = (round(speech.start + edge, 3) for edge in edges)
    left = Unrecognised(start, end, testimony.text if testimony else "")
    return replace(found, unrecognised=(left,))


def _edges(hole: Hole, num_words: int, speech: SpeechSegment) -> tuple[float, float]:
    """Return where the audio is cut around a hole, in seconds from the segment's start."""
    start = cut_near(speech.speech_probs, hole.start) if hole.first else 0.0
    end = cut_near(speech.speech_probs, hole.end) if hole.after < num_words else speech.duration
    return start, max(start, end)


def _parts(edges: tuple[float, float], speech: SpeechSegment) -> list[SpeechSegment]:
    """Return the parts of a segment before, in and after a hole, of those that are long enough."""
    start, end = edges
    if end - start < MIN_PART_S:
        return []
    cuts = [0.0, start, end, speech.duration]
    if start < MIN_PART_S:
        cuts.remove(start)
    if speech.duration - end < MIN_PART_S:
        cuts.remove(end)
    return [speech.part(*pair) for pair in pairwise(cuts)]


async def _testimony(
    stretch: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Testimony | None:
    """Return what the CTC model hears in a stretch, None where there is none for its language."""
    asked = RecognitionOptions.parse({"decoder": "wfst", "language": options.language})
    try:
        log_probs = await ctc_roles.encode(calls, stretch.waveform)
        found = await ctc_roles.decode(calls, log_probs, asked, stretch.start)
    except (ComponentError, OptionError):
        return None
    return Testimony(found.nbest[0].text)


def _is_believed(hole: Hole, testimony: Testimony | None) -> bool:
    """Whether there is speech in a hole, by the witness or, without one, by the hole's size."""
    if testimony is None:
        return hole.missing_s >= CERTAIN_S
    needed = CERTAIN_WORDS if hole.missing_s >= CERTAIN_S else DOUBTFUL_WORDS
    return testimony.num_words >= hole.after - hole.first + needed


def _joined(segments: Sequence[Segment], nbest: int) -> Segment:
    spoken = [segment for segment in segments if segment.text]
    return Segment(
        start=segments[0].start,
        end=segments[-1].end,
        nbest=joined([segment.nbest for segment in spoken], nbest),
        words=tuple(word for segment in segments for word in segment.words),
        unrecognised=tuple(span for segment in segments for span in segment.unrecognised),
    )


def _shifted(words: Sequence[Word], seconds: float) -> tuple[Word, ...]:
    return tuple(
        replace(word, start=round(word.start + seconds, 3), end=round(word.end + seconds, 3))
        for word in words
    )
