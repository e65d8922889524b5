"""`python -m lab recordings`: long recordings of several kinds, joined from utterances."""
