"""Rewrite the text of a recognised segment."""
