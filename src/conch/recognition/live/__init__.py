"""Recognise a live stream, chunk by chunk."""
