from dataclasses import replace

from reports import accuracy, header, offline_run, run_figures

from conch.bench.offline import OfflineReport, OfflineRun, markdown
from conch.scoring.error_rates import CharacterErrors
from conch.wire.options import RecognitionOptions


def text_of(*runs: OfflineRun) -> str:
    result = header("conch bench offline --manifest m.tsv")
    report = OfflineReport(header=result, options=RecognitionOptions(), first=runs[0], runs=runs)
    return markdown(report)


def test_every_run_has_a_row() -> None:
    lines = text_of(offline_run(1), offline_run(8)).splitlines()
    assert "| conch | closed loop, 1 | 20.0 | 5.21 | 100 | 200 | 300 | 400 | 812 |" in lines
    assert any(line.startswith("| conch | closed loop, 8 | 160.0 |") for line in lines)
    assert any(line.startswith("10 utterances, 60 s of audio; A CPU, 2 cores") for line in lines)


def test_a_paced_load_is_labelled_as_one() -> None:
    lines = text_of(offline_run(4), offline_run(None, 2.5)).splitlines()
    assert any(line.startswith("| conch | paced, 2.5/s | 20.0 |") for line in lines)


def test_every_table_is_rectangular() -> None:
    words = offline_run(1)
    characters = CharacterErrors(
        reference_characters=80, substitutions=5, deletions=3, insertions=2
    )
    both = replace(accuracy(), cer=0.125, character_errors=characters)
    blocks = text_of(words, offline_run(1, figures=run_figures(20.0, both))).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 2
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1


def test_what_is_unknown_is_a_dash_and_errors_are_reported() -> None:
    unknown = accuracy(wer=None, by_source={}, words=0)
    figures = run_figures(20.0, unknown, errors=["no", "no"], stages={})
    text = text_of(offline_run(1, memory_mb=None, figures=figures))
    assert "| conch | closed loop, 1 | 20.0 | - | 100 | 200 | 300 | 400 | - |" in text
    assert "2 requests failed and do not count." in text


def test_where_only_characters_count_the_tables_say_so() -> None:
    result = replace(
        accuracy(wer=None, by_source={}, words=0),
        cer=0.125,
        cer_by_source={"one": 0.1, "two": 0.2},
        character_errors=CharacterErrors(
            reference_characters=80, substitutions=5, deletions=3, insertions=2
        ),
        scoring=["CER, Whisper's basic normaliser"],
    )
    text = text_of(offline_run(1, figures=run_figures(20.0, result)))
    assert "| system | load | RTFx | CER % |" in text
    assert "| conch | closed loop, 1 | 20.0 | 12.50 |" in text
    assert "| conch | closed loop, 1 | 80 | 5 | 3 | 2 | 12.50 |" in text
    assert "Error rates: CER, Whisper's basic normaliser." in text
    assert "WER" not in text


def test_presets_that_are_compared_have_rows_of_their_own() -> None:
    runs = [replace(offline_run(8), accuracy=name) for name in ("fast", "best")]
    lines = text_of(*runs).splitlines()
    assert any(line.startswith("| conch, fast | closed loop, 8 | 160.0 |") for line in lines)
    assert any(line.startswith("| conch, best | closed loop, 8 | 160.0 |") for line in lines)
