"""Choose the weights of an n-gram in the search of a transducer.

    python -m lab.training.transducer.tune_fusion transducer-en --manifest speech/manifest.tsv

Every pair of lm_weight and word_bonus decodes the recordings; the table has word error rates. The
first row is the search without an n-gram. Without --arpa it is that which ships with Conch.
"""

import argparse
from pathlib import Path

from tqdm import tqdm

from conch.component import Row
from conch.component.arrays import FloatArray
from conch.decoding.fusion import Fusion, load_fused_language_model
from conch.decoding.ngram.model import LanguageModelConfig
from conch.decoding.written import WrittenUnits
from conch.families.search.graphs import RecordingsConfig
from conch.families.transducer.encoder import TransducerEncoder
from conch.families.transducer.folder import read_transducer
from conch.families.transducer.guide import Guide
from conch.families.transducer.networks import Joint
from conch.families.transducer.search import TransducerSearch
from lab.training.ctc.data import some_utterances
from lab.training.ctc.evaluate import Table
from lab.waveforms import waveform_of

_TOGETHER = 16
"""Utterances of one search."""


def main(arguments: list[str] | None = None) -> None:
    """Decode with all weights and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("folder", type=Path)
    add("--manifest", type=Path, required=True)
    add("--split", default="dev")
    add("--limit", type=int, help="utterances, evenly taken; all if left out")
    add("--beam", type=int, default=8)
    add("--arpa", default="", help="n-grams in the letters of the model")
    add("--lm-weights", type=float, nargs="*", default=[0.2, 0.3, 0.4, 0.5])
    add("--word-bonuses", type=float, nargs="*", default=[0.5, 1.0, 1.5])
    args = parser.parse_args(arguments)
    utterances = some_utterances(args.manifest, args.split, args.limit)
    folder = read_transducer(args.folder)
    units = WrittenUnits(folder.tokens, folder.blank)
    search = TransducerSearch(Joint(folder, 1, 0.0), units)
    model = load_fused_language_model(args.arpa, LanguageModelConfig().oov_log_prob, units.texts)
    encoder = TransducerEncoder(RecordingsConfig(model=str(args.folder)))
    frames = [encoded(encoder, waveform_of(item.path)) for item in tqdm(utterances)]
    table = Table([item.source for item in utterances], [item.text for item in utterances])
    print(table.head)
    guides = {"alone": Guide()} | {
        f"{weight:g}, {bonus:g}": Guide(fusion=Fusion(model, units.texts, weight, bonus))
        for weight in args.lm_weights
        for bonus in args.word_bonuses
    }
    for name, guide in guides.items():
        texts = []
        for first in range(0, len(frames), _TOGETHER):
            some = frames[first : first + _TOGETHER]
            going = [search.utterance(args.beam, guide) for _ in some]
            search.advance(going, some)
            texts += [item.nbest(1, is_final=True)[0].text for item in going]
        print(table.row(name, texts), flush=True)


def encoded(encoder: TransducerEncoder, waveform: FloatArray) -> FloatArray:
    """Return the frames of a waveform, float32 `[T, size]`."""
    (found,) = encoder([Row(inputs={"waveform": waveform})])
    if isinstance(found, Exception):
        raise found
    frames: FloatArray = found["encoder_out"][: int(found["encoder_out_lens"][0])]
    return frames


if __name__ == "__main__":
    main()
