"""Whisper models: those that can be had, those that are here, and whether they are whole."""
