"""`python -m lab manifest`: the manifest of a corpus on disk."""
