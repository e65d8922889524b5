"""Metrics of recognition."""

from conch.bls.metrics import Metric

CHUNKS = Metric("conch_chunks_total", "Chunks of live audio answered", ("mode", "outcome"))
AUDIO_SECONDS = Metric("conch_audio_seconds_total", "Seconds of audio recognised", ("mode",))
GAPS = Metric(
    "conch_gaps_total",
    "Stretches of speech that a text left out, or seemed to leave out",
    ("outcome",),
)
LISTS = Metric(
    "conch_rescored_lists_total",
    "N-best lists that were rescored, or whose best text was certain enough",
    ("outcome",),
)
UNRECOGNISED_SECONDS = Metric("conch_unrecognised_seconds_total", "Speech left without a text")
ENDPOINTS = Metric("conch_endpoints_total", "Endpoints found in live streams", ("rule",))
PASSES = Metric(
    "conch_passes_total", "Rolling and second passes over live utterances", ("kind", "outcome")
)
PASS_LATE_SECONDS = Metric(
    "conch_rolling_pass_late_seconds_total", "Time from when a rolling pass was due to its text"
)
PASS_STRETCH = Metric(
    "conch_rolling_pass_stretch",
    "How much rarer rolling passes are than asked for, because of load",
    kind="gauge",
)
STREAMS_RESUMED = Metric(
    "conch_streams_resumed_total", "Live streams that went on after a component had lost them"
)
STREAMS_ENDED = Metric("conch_streams_ended_total", "Live streams that ended", ("how",))
OPEN_STREAMS = Metric("conch_open_streams", "Live streams open now", kind="gauge")
