from conch.scoring.error_rates import number, percent, table


def test_numbers() -> None:
    assert (number(1.25, 1), number(None), percent(0.05), percent(0.001, sign=True)) == (
        "1.2",
        "-",
        "5.00",
        "+0.10",
    )


def test_table() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
