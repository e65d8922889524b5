"""FunASR's models: one network each, that takes features at a low frame rate."""
