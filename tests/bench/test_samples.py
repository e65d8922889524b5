import re
from pathlib import Path

from conch.bench.samples import comparable
from conch.scoring.manifest import ManifestEntry


def test_texts_are_left_out_where_nothing_compares_them(monkeypatch, capsys) -> None:
    spoken = [ManifestEntry(Path("a.wav"), "Hello."), ManifestEntry(Path("b.wav"), "")]
    monkeypatch.setattr("conch.bench.samples.missing", lambda *modules: [])
    assert comparable(spoken) == spoken
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("conch.bench.samples.missing", lambda *modules: ["jiwer"])
    assert comparable(spoken) == [
        ManifestEntry(Path("a.wav"), ""),
        ManifestEntry(Path("b.wav"), ""),
    ]
    assert re.match(
        r"conch bench: no word error rates without jiwer; .*bench\]'", capsys.readouterr().err
    )
    assert comparable(spoken[1:]) == spoken[1:]
    assert capsys.readouterr().err == ""
