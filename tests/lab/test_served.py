from lab.served import share_of


def test_a_share_is_of_all_that_was_used() -> None:
    assert share_of({"speech": 1.0, "vad": 3.0}, ("speech", "tritonserver")) == 0.25
    assert share_of({}, ("speech",)) is None
