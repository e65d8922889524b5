"""Searches of CTC, and what other searches share with them: units, n-grams, hypotheses, streams."""
