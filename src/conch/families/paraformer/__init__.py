"""Paraformer, as FunASR exports it: one network that writes all units of a segment at once."""
