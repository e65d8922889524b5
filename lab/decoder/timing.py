"""Time the decoding of CTC log posteriors, by this search and by pyctcdecode."""

import functools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conch.component.arrays import FloatArray
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.beam.search import CtcSearch
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.greedy import best_path
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from conch.families.ctc.units import opens_words
from conch.families.ngram.arpa import read_ngrams
from conch.families.ngram.table import NgramTable
from conch.wire.errors import BenchError


@dataclass(frozen=True, slots=True)
class DecoderTime:
    """The time of one way of decoding."""

    name: str
    ms_per_utterance: float
    """Median of the runs, each over all utterances."""
    texts: tuple[str, ...]
    """Text of each utterance."""


def measured(name: str, decode: Callable[[], list[str]], utterances: int, runs: int) -> DecoderTime:
    """Return the median time of `runs` runs, after an uncounted one.

    Args:
        name: of the way of decoding.
        decode: returns the texts of all utterances.
        utterances: number of utterances.
        runs: at least one.
    """
    texts = decode()
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        decode()
        seconds.append(time.perf_counter() - started)
    return DecoderTime(name, 1000 * statistics.median(seconds) / utterances, tuple(texts))


def searches(
    log_probs: Sequence[FloatArray],
    vocab: CtcVocab,
    model: CtcLanguageModel | None,
    *,
    options: CtcSearchOptions,
    batch_size: int = 32,
    runs: int = 5,
    device: str | None = None,
) -> list[DecoderTime]:
    """Return the times of this search: greedy, beam, with the n-gram.

    Args:
        log_probs: float32 `[T, V]` of each utterance; batched by length.
        vocab: of these.
        model: the n-gram; without one those rows are left out.
        options: beam size and weights.
        batch_size: utterances searched together.
        runs: of each.
        device: of torch, where to search; None is the CPU, by numpy.
    """
    search = CtcSearch(vocab, model, device)

    def greedy() -> list[str]:
        return [best_path(item, vocab).text for item in log_probs]

    def searched(own: CtcSearchOptions) -> list[str]:
        return beam_texts(search, log_probs, own, batch_size)

    plain = replace(options, language_model=False)
    ways = {"beam": plain}
    if model is not None:
        ways["beam + n-gram"] = replace(plain, language_model=True)
    found = [measured("greedy", greedy, len(log_probs), runs)]
    for name, own in ways.items():
        found.append(measured(name, functools.partial(searched, own), len(log_probs), runs))
    return found


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


def graph_time(
    log_probs: Sequence[FloatArray], vocab: CtcVocab, path: Path, runs: int
) -> DecoderTime:
    """Return the time of a decoding graph, utterance by utterance."""
    decoded = functools.partial(graph_texts, DecodingGraph(path, vocab.texts), log_probs)
    return measured("graph (WFST)", decoded, len(log_probs), runs)


def pyctcdecode_times(
    log_probs: Sequence[FloatArray],
    vocab: CtcVocab,
    arpa: Path | None = None,
    *,
    options: CtcSearchOptions,
    runs: int = 3,
) -> list[DecoderTime]:
    """Return the times of pyctcdecode, utterance by utterance: beam, and with the n-gram.

    Args:
        log_probs: float32 `[T, V]` of each utterance.
        vocab: of these.
        arpa: the n-gram, read by KenLM; without one that row is left out.
        options: beam size and weights; everything else is pyctcdecode's default.
        runs: of each.

    Raises:
        BenchError: pyctcdecode or kenlm is not installed.
    """
    try:
        from pyctcdecode.decoder import build_ctcdecoder

        if arpa is not None:
            import kenlm  # noqa: F401
    except ImportError as error:
        wanted = "pip install pyctcdecode kenlm"
        raise BenchError(f"comparing with pyctcdecode needs: {wanted}") from error
    labels = pyctcdecode_labels(vocab.texts)
    decoders = {"pyctcdecode beam": build_ctcdecoder(labels)}
    if arpa is not None:
        decoders["pyctcdecode beam + n-gram"] = build_ctcdecoder(
            labels,
            kenlm_model_path=str(arpa),
            unigrams=read_ngrams(arpa).words,
            alpha=options.lm_weight,
            beta=options.word_bonus,
        )

    def decoded(decoder: Any) -> list[str]:
        return [decoder.decode(item, beam_width=options.beam_size) for item in log_probs]

    return [
        measured(name, functools.partial(decoded, decoder), len(log_probs), runs)
        for name, decoder in decoders.items()
    ]


def pyctcdecode_labels(vocab: Sequence[str]) -> list[str]:
    """Return a vocabulary in pyctcdecode's form: ▁ begins words of subwords, else a space does."""
    if opens_words(vocab):
        return [unit.replace(" ", "▁") for unit in vocab]
    return list(vocab)


def write_arpa(ngrams: NgramTable, path: Path) -> None:
    """Write an n-gram as ARPA, so that KenLM reads what `read_ngrams` does."""
    with path.open("w") as file:
        file.write("\\data\\\n")
        for order, item in enumerate(ngrams.orders, 1):
            file.write(f"ngram {order}={len(item.words)}\n")
        for order, item in enumerate(ngrams.orders, 1):
            file.write(f"\n\\{order}-grams:\n")
            columns = (item.words, item.log_probs / math.log(10), item.backoffs / math.log(10))
            for ids, log_prob, backoff in zip(*(part.tolist() for part in columns), strict=True):
                words = " ".join([ngrams.words[index] for index in ids])
                backed = f"\t{backoff:.6f}" if order < len(ngrams.orders) else ""
                file.write(f"{log_prob:.6f}\t{words}{backed}\n")
        file.write("\n\\end\\\n")
