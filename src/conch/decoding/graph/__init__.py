"""A search in a decoding graph, by kaldi-decoder."""

FORMAT = "conch-ctc-graph-1"
