"""A search in a decoding graph, by kaldi-decoder."""

FORMAT = "conch-ctc-graph-1"
"""What a file of `conch graph` says that it is."""
