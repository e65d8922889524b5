"""Recipes of the project's own weights."""
