"""`conch graph`: a decoding graph from a lexicon and an n-gram language model."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from time import perf_counter

from conch.cli.arguments import Subparsers, add_command, add_flags, number, output, positive

EPILOG = """
The lexicon is a text file with a line for each spelling: the word as it is shown, then its letters
as the CTC model writes them. The letters are needed for subword models too. A word alone is spelled
as it is written:

  kilometre
  Dr.   doctor
  NVIDIA  nvidia

The graph keeps only words that the language model knows too. Put words that you expect into a file
of the same form for --more-words, even if the language model knows them: it makes rare names hard
to find. --dictionary is for thousands of words, few of which are spoken. A word outside the graph
is never recognised. Write words as the language model does (en-us: in lower case): any other
spelling is an unknown word.
--prune, --max-order and --max-words make the graph smaller and less accurate. The command prints
how many words and n-grams are left.

examples:
  conch graph --out en.fst                            the en-us trigram that comes with Conch
  conch graph --out tiny.fst --prune 1e-6
  conch graph --out mine.fst --model mine.onnx        for a model that you trained
  conch graph --out ours.fst --prune 3e-7 --shipped-words --more-words ours.txt
                                                      the one that ships, and your names
  conch graph --out taxi.fst --arpa taxi.arpa.gz --lexicon taxi.txt --prune 0

exit codes: 0 written, 1 not written, 2 wrong usage
"""


FLAGS = """
--out FILE!        the graph
--model FILE       the .onnx file, or the folder, whose units the graph reads (default: the model
                   in Conch)
--arpa FILE        n-grams: ARPA, gzipped or not (default: the en-us trigram)
--lexicon FILE     spellings (default: the language model's words as they are written)
--more-words FILE  spellings of words that you expect, also of words that the language model does
                   not know
--dictionary FILE  spellings of many more words, few of which are spoken; those that the language
                   model does not know have a log probability of -16
--shipped-words    add the 185,000 English words of the graph in Conch, as --dictionary does
--oov-log-prob X=-10  least natural log of the unigram probability of the words from --more-words;
                   half of the words in en-us are below -15
--word-bonus X=0   nats added for every word, against deletions
"""
LIMITS = """
--prune X=1e-07  drop n-grams whose loss raises perplexity by less than this fraction; 0 keeps all
--max-order N  words of the longest n-grams (default: the model's)
--max-words N  keep the N most frequent words, and those of --more-words, --dictionary and
               --shipped-words (default: all)
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "graph",
        run,
        help="make a decoding graph for the CTC models",
        description="Compose the units of a CTC model, a lexicon and an n-gram language model\n"
        "into one graph, to decode with all of them at once.",
        epilog=EPILOG,
    )
    log_prob = number("a number up to 0", lambda value: -math.inf < value <= 0)
    paths = {"lexicon": Path, "more_words": Path, "dictionary": Path}
    types = {"out": output, "oov_log_prob": log_prob, "word_bonus": float, **paths}
    add_flags(parser, FLAGS, model="", arpa="", **types)
    fraction = number("a number from 0 to below 1", lambda value: 0 <= value < 1)
    whole = (positive, 0)
    limits = parser.add_argument_group("limits")
    add_flags(limits, LIMITS, prune=fraction, max_order=whole, max_words=whole)


def run(args: argparse.Namespace) -> int:
    from conch.decoding.graph.fst_arrays import open_fst
    from conch.decoding.ngram.files import read_ngrams
    from conch.decoding.ngram.model import model_path
    from conch.decoding.units import units_from_dict
    from conch.families.ctc.decoder import unpacked_graph
    from conch.families.ctc.vocabulary import read_vocabulary
    from conch.graphs.build import GraphConfig, build_graph
    from conch.graphs.lexicon import own_spellings, read_lexicon

    config = GraphConfig(**{item.name: getattr(args, item.name) for item in fields(GraphConfig)})
    progress = _progress()
    units = units_from_dict(json.loads(read_vocabulary(args.model).units))
    lexicon = read_lexicon(args.lexicon, units.vocab) if args.lexicon else None
    more_words = read_lexicon(args.more_words, units.vocab) if args.more_words else ()
    dictionary = read_lexicon(args.dictionary, units.vocab) if args.dictionary else ()
    if args.shipped_words:
        _, (_, shipped) = open_fst(unpacked_graph()).symbols
        dictionary += own_spellings(shipped, units)
    model = model_path(args.arpa)
    progress(f"reading {model.name}")
    table = read_ngrams(model, progress)
    report = build_graph(
        args.out,
        units,
        table,
        lexicon,
        config,
        progress,
        more_words=more_words,
        dictionary=dictionary,
    )
    print(f"graph     {args.out}, {args.out.stat().st_size / 1e6:.0f} MB")
    print(f"size      {report.states} states, {report.arcs} arcs")
    print(f"words     {report.words}, {report.added} of them unknown to the language model")
    print(f"  left out: {report.without_spelling} of the language model without a spelling,")
    print(f"            {report.unknown} of the lexicon that the language model does not know")
    for order, before in enumerate(report.ngrams, start=1):
        after = report.kept_ngrams[order - 1] if order <= len(report.kept_ngrams) else 0
        print(f"{order}-grams   {after} of {before}")
    return 0


def _progress() -> Callable[[str], None]:
    begun = perf_counter()

    def say(text: str) -> None:
        print(f"conch: {perf_counter() - begun:5.1f} s  {text}", file=sys.stderr, flush=True)

    return say
