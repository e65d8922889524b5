"""Recipes: how the project's own weights came to be, and how to make others."""
