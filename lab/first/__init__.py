"""`python -m lab first`: how long a long recording takes to its first segment."""
