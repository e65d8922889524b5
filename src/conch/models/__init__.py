"""From waveforms to speech probabilities, hidden states and texts."""
