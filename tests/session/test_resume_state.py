from conch.session.resume_state import cut_behind
from conch.wire.result import Word


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
