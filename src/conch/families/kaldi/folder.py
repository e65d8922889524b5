"""Folders of Kaldi's nnet3 models as Vosk has them, checked without loading them."""

import re
from importlib.util import find_spec
from pathlib import Path

from conch.catalogue.checks import ModelSummary, UnfitModelError, read_text, readable, size_of
from conch.packaged import install

_NEEDED = ("am/final.mdl", "conf/mfcc.conf", "conf/model.conf")
_GRAPHS = (
    ("graph/HCLG.fst", "graph/words.txt"),
    ("graph/HCLr.fst", "graph/Gr.fst", "graph/disambig_tid.int"),
)
_IVECTOR = tuple(
    f"ivector/{name}"
    for name in (
        *("final.ie", "final.dubm", "final.mat", "global_cmvn.stats"),
        *("online_cmvn.conf", "splice.conf"),
    )
)
_FILTERS = re.compile(r"^\s*--num-ceps=(\d+)", re.M)


@readable()
def check_kaldi(folder: Path) -> ModelSummary:
    files = (*_NEEDED, *(_IVECTOR if (folder / "ivector").is_dir() else ()))
    lacking = [name for name in files if not (folder / name).is_file()]
    graphs = [[name for name in names if not (folder / name).is_file()] for names in _GRAPHS]
    if all(graphs):
        lacking.append(" or ".join(", ".join(names) for names in graphs))
    if lacking:
        raise UnfitModelError(
            f"it lacks {', '.join(lacking)}; a Kaldi model has am, conf and graph, as Vosk has "
            "them",
            1 - len(lacking) / (len(files) + 1),
        )
    if not find_spec("vosk"):
        raise UnfitModelError(f"it needs the package vosk: {install('kaldi')}")
    match = _FILTERS.search(read_text(folder / "conf/mfcc.conf"))
    return ModelSummary(
        None,
        size_of(folder),
        family="Kaldi (nnet3)",
        features=f"{match[1] if match else 13} MFCC",
        is_live=True,
    )
