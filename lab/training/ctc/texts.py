"""Texts of recordings by Conch's CTC model and each search."""

from collections.abc import Sequence

from tqdm import tqdm

from conch.component.arrays import FloatArray
from conch.decoding.beam.search import CtcSearch
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.options import CtcSearchOptions
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.ctc.vocabulary import Vocabulary
from conch.scoring.manifest import Utterance
from lab.waveforms import waveform_of


def encoded(utterances: Sequence[Utterance]) -> tuple[list[FloatArray], Vocabulary]:
    """Return the CTC model's log probabilities of recordings, and its vocabulary."""
    encoder = CtcEncoder(CtcEncoderConfig())
    log_probs = []
    for utterance in tqdm(utterances, desc="encoding", disable=None):
        log_probs += encoder.encode([waveform_of(utterance.path)])
    return log_probs, encoder.vocabulary


def beam_texts(
    search: CtcSearch, log_probs: Sequence[FloatArray], options: CtcSearchOptions, batch_size: int
) -> list[str]:
    """Return the best text of each utterance by the beam, those of about one length together."""
    order = sorted(range(len(log_probs)), key=lambda index: len(log_probs[index]))
    texts = [""] * len(log_probs)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        states = search.advance(
            [search.start(options) for _ in batch],
            [log_probs[index] for index in batch],
        )
        for index, state in zip(batch, states, strict=True):
            texts[index] = search.nbest(state, 1, True)[0].text
    return texts


def graph_texts(
    graph: DecodingGraph, log_probs: Sequence[FloatArray], config: WfstConfig | None = None
) -> list[str]:
    """Return the best text of each utterance in a graph."""
    texts = []
    for item in log_probs:
        stream = WfstStream(graph, config)
        stream.advance(item)
        texts.append(stream.finish()[0].text)
    return texts
