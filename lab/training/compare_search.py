"""Hold the CTC beam search against pyctcdecode: on how many utterances the best text is the same.

    python -m lab.training.compare_search path/to/manifest.tsv --split dev --limit 276

Both search the log probabilities of Conch's CTC model, with its n-gram, the same weights and the
same cost of unknown words. Both prune only by the beam's size and by the least log posterior of a
unit. Prints each pair of texts that differ, with both scores.
"""

import argparse
from pathlib import Path

from tqdm import tqdm

from conch.decoding.beam import BeamSearch, CtcSearchOptions
from conch.decoding.decoder import CtcDecoderConfig
from conch.decoding.fusion import load_ctc_language_model
from conch.decoding.vocab import CtcVocab
from conch.families.ngram.model import LanguageModelConfig
from conch.scoring.manifest import read_manifest, select
from lab.training.ctc.ngram_search import NgramSearch
from lab.training.ctc.texts import encoded


def main() -> None:
    """Compare as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("manifest", type=Path)
    add("--split")
    add("--limit", type=int, help="utterances, evenly taken")
    add("--beam-size", type=int, default=10)
    add("--lm-weight", type=float, default=CtcSearchOptions().lm_weight)
    add("--word-bonus", type=float, default=CtcSearchOptions().word_bonus)
    args = parser.parse_args()
    utterances = select(read_manifest(args.manifest), split=args.split, limit=args.limit)
    log_probs, vocabulary = encoded(utterances)
    vocab = CtcVocab(vocabulary.texts)
    ngram = LanguageModelConfig(oov_log_prob=CtcDecoderConfig().oov_log_prob)
    model = load_ctc_language_model(ngram, vocab)
    options = CtcSearchOptions(
        beam_size=args.beam_size,
        language_model=True,
        lm_weight=args.lm_weight,
        word_bonus=args.word_bonus,
        prune_history=False,
    )
    theirs = NgramSearch(
        vocab.texts,
        ngram,
        lm_weight=args.lm_weight,
        word_bonus=args.word_bonus,
        beam_size=args.beam_size,
    )
    same = 0
    for item in tqdm(log_probs, desc="searching", disable=None):
        search = BeamSearch(vocab, options, model)
        search.advance(item)
        ours = search.nbest(1, is_final=True)[0]
        text, score = theirs.unpruned(item)[0]
        same += ours.text == text
        if ours.text != text:
            tqdm.write(f"{ours.score:.3f} {ours.text}\n{score:.3f} {text}  (pyctcdecode)\n")
    print(f"the same best text on {same} of {len(log_probs)} ({100 * same / len(log_probs):.1f} %)")


if __name__ == "__main__":
    main()
