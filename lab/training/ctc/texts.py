"""Texts of recordings by Conch's CTC model and each search."""

from collections.abc import Sequence

from tqdm import tqdm

from conch.component.arrays import FloatArray
from conch.decoding.beam import BeamSearch, CtcSearchOptions
from conch.decoding.fusion import FusedLanguageModel
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.vocab import CtcVocab, Vocabulary
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
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
    log_probs: Sequence[FloatArray],
    vocab: CtcVocab,
    options: CtcSearchOptions,
    model: FusedLanguageModel | None = None,
) -> list[str]:
    """Return the best text of each utterance by the beam."""
    texts = []
    for item in log_probs:
        search = BeamSearch(vocab, options, model)
        search.advance(item)
        texts.append(search.nbest(1, is_final=True)[0].text)
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
