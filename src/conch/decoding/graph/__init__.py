"""A search in a decoding graph, by kaldi-decoder."""

FORMAT = "conch-ctc-graph-1"
"""Name of the format in the files of `conch graph`."""
