"""Transcribe very many files on Ray Data: `conch bulk`.

Ray Data schedules, retries and limits the work. This package knows what is Conch's: what a unit of
work is, that a shard is written whole or not at all, and where a long recording may be cut.
"""
