from dataclasses import replace

from live_answers import segment

from conch.session.resume_state import ResumePoint, ResumeState, cut_behind, plain, without_first
from conch.wire.result import OpenUtterance, Word


def timed(*times: tuple[str, float, float]) -> tuple[Word, ...]:
    return tuple(Word(text, start, end, 0.9) for text, start, end in times)


def test_the_cut_follows_what_is_firm() -> None:
    state = ResumeState()
    firm = timed(("He", 1.6, 1.8), ("even", 2.0, 2.6))
    state.hear(None, 1.0)
    assert state.cut() == ResumePoint(0.0)
    state.hear(OpenUtterance(1.5, (), (), timed(("he", 1.6, 1.8))), 2.0)
    assert state.cut() == ResumePoint(1.5)
    state.hear(OpenUtterance(1.5, firm, (), timed(("thought", 2.7, 3.0))), 3.0)
    point = state.cut()
    assert (point.at_s, point.until_s) == (1.9, 2.6)
    # It awaits its second pass, then it is final, then nobody speaks.
    ended = replace(segment("He even thought", 0), start=1.5, end=3.2)
    state.end([(ended, False)])
    assert state.cut() == point
    state.end([(ended, True)])
    assert state.cut() == ResumePoint(3.2)
    state.hear(None, 60.0)
    assert state.cut() == ResumePoint(58.0)


def test_an_utterance_of_one_short_word_is_not_heard_again() -> None:
    state = ResumeState()
    state.hear(OpenUtterance(1.5, newest=timed(("yes", 1.5, 1.9))), 2.0)
    state.end([(replace(segment("Yes", 0), start=1.5, end=1.9), True)])
    state.hear(None, 2.6)
    assert state.cut() == ResumePoint(1.9)


def test_what_was_told_before_stays_told() -> None:
    state = ResumeState(ResumePoint(0.0, (), 1.7))
    state.hear(OpenUtterance(1.5), 2.0)
    assert state.cut() == ResumePoint(1.5, (), 1.7)
    state.end([(replace(segment("Yes", 0), start=1.5, end=1.9), True)])
    state.begin(10.0)
    assert (state.cut(), state.next_index) == (ResumePoint(10.0, (), 1.7), 1)


def test_the_news_of_an_answer_are_what_has_ended_or_got_its_second_pass() -> None:
    state = ResumeState()
    one, two = (replace(segment("Yes", index), start=1.5, end=1.9) for index in range(2))
    assert state.end([(one, False)]) == {0: False}
    assert state.is_pending
    assert state.end([(one, True), (two, True)]) == {0: True, 1: True}
    assert state.end([(one, True), (two, True)]) == {}
    assert not state.is_pending
    state.hear(OpenUtterance(2.5), 3.0)
    assert state.is_pending


def test_what_is_settled_moves_the_cut_nowhere() -> None:
    state = ResumeState()
    state.hear(OpenUtterance(1.5, timed(("He", 1.6, 1.8)), timed(("even", 2.0, 2.6))), 9.0)
    before = state.cut()
    (settled,) = state.settle("", has_second_pass=False, has_words=False)
    assert (settled.text, state.cut()) == ("He", before)


def test_a_cut_lies_between_two_words_and_far_enough_before_the_last_one() -> None:
    def words(*times: tuple[float, float]) -> list[Word]:
        return [Word(f"w{start}", start, end, 1.0) for start, end in times]

    assert cut_behind([], 2.5).at_s == 2.5
    assert cut_behind(words((1.0, 2.0)), 0.5).at_s == 0.5
    far = cut_behind(words((1.0, 1.4), (1.6, 2.2)), 0.5)
    assert (far.at_s, far.overlap, far.until_s) == (1.5, ("w1.6",), 2.2)
    near = cut_behind(words((1.0, 1.4), (1.6, 2.0), (2.1, 2.2)), 0.5)
    assert (near.at_s, near.overlap) == (1.5, ("w1.6", "w2.1"))
    # Times of words that overlap.
    assert cut_behind(words((1.0, 1.9), (1.5, 2.2)), 0.5).at_s == 1.5


def test_words_at_the_beginning_of_a_text() -> None:
    assert plain("“Don't,”") == "dont"
    assert without_first("Of the people.", ("of", "the")) == "people."
    assert without_first("Of a people.", ("of", "the")) == "a people."
    assert without_first("The  people.", ("of",)) == "The  people."
    assert without_first("Often the people.", ("of",)) == "Often the people."
    assert without_first("今天，天气很好。", ("今", "天", "天气")) == "很好。"  # noqa: RUF001
    assert without_first("今天天气很好。", ("今", "日")) == "天天气很好。"
    assert without_first("我用 Python 写", ("我", "用", "Py")) == "Python 写"
