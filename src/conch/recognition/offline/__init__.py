"""Recognise a whole recording, segment by segment."""
