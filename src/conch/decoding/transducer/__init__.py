"""The search of a transducer: its decoder and joiner beside it, for several utterances at once."""
