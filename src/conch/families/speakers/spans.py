"""The spans of a waveform that a request asks for."""

import numpy as np

from conch.component import Array, Row
from conch.wire.errors import InvalidRequestError


def spans_of(row: Row, num_samples: int, *, least: int, most: int) -> Array:
    """Return a row's spans, from `starts` to `ends`, int32 `[spans, 2]` in samples.

    Raise an InvalidRequestError if one is not within the waveform, or not `least` to `most` long.
    """
    starts, ends = (row.inputs[name].ravel() for name in ("starts", "ends"))
    if len(starts) != len(ends):
        raise InvalidRequestError(f"starts and ends differ: {len(starts)} and {len(ends)}")
    lengths = ends - starts
    is_fitting = (starts >= 0) & (ends <= num_samples) & (lengths >= least) & (lengths <= most)
    if not is_fitting.all():
        place = int(is_fitting.argmin())
        raise InvalidRequestError(
            f"a span takes {least} to {most} samples within the waveform of {num_samples}; "
            f"sent: {starts[place]} to {ends[place]}"
        )
    spans: Array = np.stack([starts, ends], axis=1)
    return spans
