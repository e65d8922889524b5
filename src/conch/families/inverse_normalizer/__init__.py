"""Inverse text normalisation: numbers, dates and amounts in digits."""
