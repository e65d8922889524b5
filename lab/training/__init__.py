"""Recipes of the project's own weights, and of others."""
