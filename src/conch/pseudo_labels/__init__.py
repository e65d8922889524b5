"""Pseudo-labels that two recognisers agree on: `conch agree`.

Both transcribe a recording. The character error rate of one text against the other says how far to
trust it: recognisers that work in different ways seldom make the same error. WenetSpeech keeps
those of its labels, from subtitles or a recogniser, that a second model's alignment confirms (Zhang
et al. 2022, arXiv 2110.03370).
"""
