"""Audio as people have it, turned block by block into 16 kHz mono: nothing is held whole twice."""
