"""Long recordings joined from utterances."""
