"""`python -m lab names`: what hotwords find, what they spoil and what they cost."""
