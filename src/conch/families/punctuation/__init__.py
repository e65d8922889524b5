"""Punctuation and capitals for a text that has none."""
