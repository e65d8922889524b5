"""Statistics of Kokoro's vocoder."""
