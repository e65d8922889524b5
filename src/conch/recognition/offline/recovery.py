"""Recognise a segment so that its text leaves no speech out.

The alignment of the text shows gaps: speech without words. Only a gap costs further calls. Another
recogniser gives a second opinion: whether there are words in the gap. If there are, the segment is
cut at the gap, and its parts are encoded and decoded again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from conch.bls.calls import Calls
from conch.families import decoders
from conch.recognition.hooks import decoder_of, second_opinion
from conch.recognition.languages import with_language
from conch.recognition.metrics import GAPS, UNRECOGNISED_SECONDS
from conch.recognition.offline.coverage import CERTAIN_S, Gap, cut_near, gaps, within_speech
from conch.recognition.segment import recognize_segment
from conch.recognition.speech import SpeechSegment
from conch.wire.errors import ComponentError, OptionError
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Unrecognised, Word

CERTAIN_WORDS, DOUBTFUL_WORDS = 2, 3
"""Words that the second opinion must find in a gap beyond those of the text: in a certain gap, and
in a doubtful one."""
MAX_DEPTH = 3
"""Largest number of cuts within each other."""
MIN_PART_S = 0.4
"""Shortest part that is recognised by itself, in seconds."""
MIN_HALVED_S = 8.0
"""Shortest segment that is halved if all of its speech is left out, in seconds."""


async def recognize_complete(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a segment's text with words, for as much of its speech as possible.

    Speech without a text is in `Segment.unrecognised`.
    """
    if not (options.coverage and decoder_of(options).may_omit_speech):
        return await recognize_segment(speech, options, calls)
    segment = await _Recovery(options, calls).recognized(speech)
    # Count for the answer only: parts may belong to a repair that was rejected.
    for left in segment.unrecognised:
        calls.count(GAPS, outcome="unrecognised")
        calls.count(UNRECOGNISED_SECONDS, left.end - left.start)
    return segment


@dataclass(frozen=True, slots=True)
class _Recovery:
    options: RecognitionOptions
    calls: Calls
    depth: int = 0
    """Number of cuts that led to a segment."""

    async def recognized(self, speech: SpeechSegment) -> Segment:
        segment = await recognize_segment(speech, self.options, self.calls)
        return await self.completed(segment, speech)

    async def completed(self, segment: Segment, speech: SpeechSegment) -> Segment:
        if segment.text and not segment.words:  # not aligned, because nothing was doubtful
            return segment
        threshold, calls = self.options.vad_threshold, self.calls
        options = with_language(self.options, segment.translated_from or segment.language)
        words = _shifted(segment.words, -speech.start)
        timed = within_speech(words, speech.speech_probs, threshold)
        segment = replace(segment, words=_shifted(timed, speech.start))
        left = []
        for gap in gaps(words, speech.speech_probs, threshold):
            start, end = _edges(gap, len(words), speech)
            if end - start < MIN_PART_S:
                continue
            opinion = await _opinion_on(speech.part(start, end), options, calls)
            if not _is_confirmed(gap, opinion, has_vad=options.vad):
                if opinion is not None:
                    calls.count(GAPS, outcome="refuted")
                continue
            inner = _Recovery(options, calls, self.depth + 1)
            better = await inner.repaired(segment, words, gap, speech)
            if better is not None:
                calls.count(GAPS, outcome="filled")
                return better
            start, end = _wordless_part(gap, timed, (start, end))
            start, end = round(speech.start + start, 3), round(speech.start + end, 3)
            left.append(Unrecognised(start, end, opinion or ""))
        return replace(segment, unrecognised=tuple(sorted(left, key=lambda span: span.start)))

    async def repaired(
        self, segment: Segment, words: Sequence[Word], gap: Gap, speech: SpeechSegment
    ) -> Segment | None:
        """Return the segment recognised in the parts around a gap, or None if it is no better."""
        parts = _parts(gap, words, speech) if self.depth <= MAX_DEPTH else []
        if len(parts) < 2:
            return None
        tail = [await self.recognized(part) for part in parts[1:]]
        ends_early = 0 < gap.first == len(words) and words[-1].start < parts[0].duration
        # With several hypotheses, another one may continue after the gap.
        if ends_early and self.options.nbest == 1:
            head = await self.completed(segment, parts[0])
        else:
            head = await self.recognized(parts[0])
        whole = _joined([head, *tail], self.options.nbest)
        still_left_s = sum(span.end - span.start for span in whole.unrecognised)
        if len(whole.text) <= len(segment.text) or still_left_s >= gap.missing_s:
            return None
        whole = replace(whole, start=segment.start, end=segment.end)
        if segment.language:  # as it was detected, in all of the segment
            whole = replace(whole, language_probability=segment.language_probability)
        return whole


def _edges(gap: Gap, num_words: int, speech: SpeechSegment) -> tuple[float, float]:
    """Return where to cut the audio around a gap, in seconds from the segment's start."""
    start = cut_near(speech.speech_probs, gap.start) if gap.first else 0.0
    end = cut_near(speech.speech_probs, gap.end) if gap.after < num_words else speech.duration
    start, end = min(start, speech.duration), min(end, speech.duration)
    return start, max(start, end)


def _parts(gap: Gap, words: Sequence[Word], speech: SpeechSegment) -> list[SpeechSegment]:
    """Return the parts of a segment before, in and after a gap, if they are long enough.

    If the gap is the whole segment, the parts are before, at and after its words. Without words,
    the parts are the two halves.
    """
    cuts = _edges(gap, len(words), speech)
    if cuts == (0.0, speech.duration) and gap.first < gap.after:
        bounds = words[gap.first].start, words[gap.after - 1].end
        cuts = cut_near(speech.speech_probs, bounds[0]), cut_near(speech.speech_probs, bounds[1])
    edges = [0.0]
    for cut in cuts:
        if edges[-1] + MIN_PART_S <= cut <= speech.duration - MIN_PART_S:
            edges.append(cut)
    if len(edges) == 1 and speech.duration >= MIN_HALVED_S:
        edges.append(cut_near(speech.speech_probs, speech.duration / 2))
    return [speech.part(*pair) for pair in pairwise([*edges, speech.duration])]


def _wordless_part(
    gap: Gap, words: Sequence[Word], edges: tuple[float, float]
) -> tuple[float, float]:
    """Return the longest stretch without words between two edges."""
    inside = words[gap.first : gap.after]
    starts = [edges[0], *(word.end for word in inside)]
    ends = [*(word.start for word in inside), edges[1]]
    start, end = max(zip(starts, ends, strict=True), key=lambda pair: pair[1] - pair[0])
    return (start, end) if end - start >= MIN_PART_S else edges


async def _opinion_on(
    stretch: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> str | None:
    """Return the second opinion on a stretch, its text.

    None if its recogniser fails, lacks the request's language, or is not loaded: this is no reason
    to load it.
    """
    decoder, other = second_opinion()
    if not await calls.has(*decoders()[decoder].components):
        return None
    other_options = RecognitionOptions.parse({"decoder": decoder, "language": options.language})
    try:
        encoded = await other.encode(calls, stretch.waveform)
        decoded = await other.decode(calls, encoded, other_options, stretch.start)
    except (ComponentError, OptionError):
        return None
    return decoded.nbest[0].text


def _is_confirmed(gap: Gap, opinion: str | None, *, has_vad: bool) -> bool:
    """Return whether a gap has speech, by the second opinion or, without it, by the gap's size.

    Without a VAD, size is no evidence, because the gap comes from loudness alone.
    """
    if opinion is None:
        return has_vad and gap.missing_s >= CERTAIN_S
    needed = CERTAIN_WORDS if gap.missing_s >= CERTAIN_S else DOUBTFUL_WORDS
    return len(opinion.split()) >= gap.after - gap.first + needed


def _joined(segments: Sequence[Segment], nbest: int) -> Segment:
    """Return consecutive parts as one segment. A part may end within a word."""
    spoken = [segment for segment in segments if segment.text]
    # All parts were decoded in one language, unless the whole had no text.
    longest = max(spoken or segments, key=lambda segment: segment.end - segment.start)
    words = [
        replace(word, end=min(word.end, after.start))
        for segment, after in pairwise(segments)
        for word in segment.words
    ]
    return Segment(
        start=segments[0].start,
        end=segments[-1].end,
        nbest=joined([segment.nbest for segment in spoken], nbest),
        words=(*words, *segments[-1].words),
        unrecognised=tuple(span for segment in segments for span in segment.unrecognised),
        language=longest.language,
        language_probability=longest.language_probability,
    )


def _shifted(words: Sequence[Word], seconds: float) -> tuple[Word, ...]:
    return tuple(
        replace(word, start=round(word.start + seconds, 3), end=round(word.end + seconds, 3))
        for word in words
    )
