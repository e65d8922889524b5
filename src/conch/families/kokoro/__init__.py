"""Kokoro-82M: many English voices, and mixes of them. Apache-2.0."""
