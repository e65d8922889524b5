"""The query of live audio, without a server."""

from conch.gateway.listen import query_of


def test_what_is_empty_is_not_sent() -> None:
    names = ("encoding", "sample_rate", "model", "include", "answers", "told_s", "nbest", "itn")
    assert query_of([(name, "") for name in names], {}) == query_of([], {})
    assert query_of([("nbest", ""), ("itn", "1")], {}).options.sent == {"itn": True}
