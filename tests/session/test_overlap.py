from conch.session.resume_state import plain, without_first


def test_words_at_the_beginning_of_a_text() -> None:
    assert plain("“Don't,”") == "dont"
    assert without_first("Of the people.", ("of", "the")) == "people."
    assert without_first("Of a people.", ("of", "the")) == "a people."
    assert without_first("The  people.", ("of",)) == "The  people."
    assert without_first("Often the people.", ("of",)) == "Often the people."
    assert without_first("今天，天气很好。", ("今", "天", "天气")) == "很好。"  # noqa: RUF001
    assert without_first("今天天气很好。", ("今", "日")) == "天天气很好。"
    assert without_first("我用 Python 写", ("我", "用", "Py")) == "Python 写"
