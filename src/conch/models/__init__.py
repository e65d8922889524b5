"""From waveforms to speech probabilities, hidden states and texts: a package per family."""
