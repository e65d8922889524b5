"""Training of a small model in the formats of SenseVoice."""
