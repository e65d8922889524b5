"""`python -m lab growth`: how the cost of a second of audio grows with load."""
