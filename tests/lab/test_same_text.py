"""The comparison of a folder in Conch and in its authors' runtime."""

from pathlib import Path

import pytest
import transducer_toys

DATA = Path(__file__).parents[1] / "data"


def test_a_table_says_how_many_texts_are_equal(tmp_path, capsys):
    pytest.importorskip("sherpa_onnx")
    from lab.__main__ import main

    folder = transducer_toys.zipformer2(tmp_path / "toy", seed=3)
    paths = sorted(DATA.glob("kokoro_*.ogg"))[:2]
    lines = ["path\ttext\tsplit", *(f"{path}\tgood morning\tdev" for path in paths)]
    (tmp_path / "manifest.tsv").write_text("\n".join(lines))
    main(["same-text", str(folder), "--manifest", str(tmp_path / "manifest.tsv"), "--beam", "1"])
    table = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in table[2:]] == [
        "| peer, greedy",
        "| Conch, greedy, recordings",
        "| Conch, greedy, live",
    ]
    for row in table[3:]:
        assert row[-2] == "2 of 2"
        assert float(row[-1].strip(" |")) < 0.01


def test_a_word_has_the_mean_of_its_units():
    import numpy as np

    from lab.baselines.folder_peers import PeerResult
    from lab.baselines.same_text import distances

    outputs = {"word_confidences": np.exp([-0.2, -0.5]), "num_words": np.array([2])}
    heard = PeerResult("so it", units=[" s", "o", " ", "it"], log_probs=[-0.1, -0.3, -2, -0.4])
    assert distances(outputs, heard) == pytest.approx([0.0, 0.1], abs=1e-6)
    assert len(distances(outputs, PeerResult("so it"))) == 0
