"""Transcribe very many files on Ray Data: `conch bulk`.

Ray Data schedules, retries and limits the work. This package defines the unit of work, shards that
are written whole or not at all, and where a long recording may be cut.
"""
