"""`python -m lab growth`: what a second of audio costs as there is more of it."""
