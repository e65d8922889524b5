"""Join the streams of one live session: what the next stream needs to continue.

Nothing here sends or waits. `AsyncLiveStream` of the client sends what follows from it, and each
session of a gateway is such a stream. A stream follows one whose server was lost, or one that has
ended, because of a `finalize` for instance.
"""
