"""`python -m lab recordings`: long recordings of several kinds, joined of utterances."""
