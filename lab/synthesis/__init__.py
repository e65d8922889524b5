"""Conch's hibari beside the bare package: CPU time, and whether chunks show."""
