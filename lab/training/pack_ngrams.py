"""Pack an n-gram model of pocketsphinx into what `conch.decoding.ngram.files` reads.

    pip install pocketsphinx==5.1.1
    python -m lab.training.pack_ngrams src/conch/decoding/ngram/weights/en-us.npz

made the file that comes with Conch. Nothing is rounded: what is read is what the package's
`en-us.lm.bin` holds.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.decoding.ngram.table import NgramTable
from lab.arguments import script_parser
from lab.training.sphinx_trie import LOG_BASE, read_sphinx_trie


def packed(table: NgramTable, unit: float) -> dict[str, NDArray[Any]]:
    """Return the arrays of the file."""
    arrays: dict[str, NDArray[Any]] = {
        "words": np.frombuffer("\n".join(table.words).encode(), np.uint8),
        "unit": np.array(unit),
    }
    contexts = table.contexts()
    for index, order in enumerate(table.orders):
        number = index + 1
        if index:
            below = len(table.orders[index - 1])
            arrays[f"children{number}"] = np.bincount(contexts[index], minlength=below).astype("u4")
            last, context = order.words[:, -1], contexts[index]
            goes_on = np.diff(context, prepend=-1) == 0
            steps = np.where(goes_on, np.diff(last, prepend=0), last).astype("<u4")
            arrays[f"last{number}"] = steps.view(np.uint8).reshape(-1, 4)[:, :3].T.copy()
        values = {"log_prob": order.log_probs}
        if number < len(table.orders):
            values["backoff"] = order.backoffs
        for name, nats in values.items():
            counted = (nats / unit).astype(np.float32)
            distinct, indices = np.unique(counted, return_inverse=True)
            if not np.array_equal(distinct.astype(np.float64)[indices] * unit, nats):
                raise ValueError(f"the {name}s of {number}-grams are not float32 of {unit:g} nats")
            arrays[f"{name}{number}"] = indices.astype(np.uint16)
            arrays[f"{name}s{number}"] = distinct
    return arrays


def packaged_model() -> Path:
    """Return the `en-us.lm.bin` of the package pocketsphinx, which is not imported for it."""
    spec = importlib.util.find_spec("pocketsphinx")
    assert spec is not None and spec.submodule_search_locations, "pip install pocketsphinx==5.1.1"
    return Path(spec.submodule_search_locations[0], "model", "en-us", "en-us.lm.bin")


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.npz")
    args = parser.parse_args()
    np.savez_compressed(args.out, **packed(read_sphinx_trie(packaged_model()), LOG_BASE))


if __name__ == "__main__":
    main()
