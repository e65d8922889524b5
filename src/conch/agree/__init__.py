"""Labels that two recognisers agree on: `conch agree`.

Both transcribe a recording. Their character error rate against each other tells how far to trust
the text: recognisers that work in different ways seldom make the same error. So corpora are made of
speech that nobody wrote down. WenetSpeech, for one, keeps of its labels, which were read off
subtitles or recognised, those that a second model's alignment confirms (Zhang et al. 2022, arXiv
2110.03370).
"""
