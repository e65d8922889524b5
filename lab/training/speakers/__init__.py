"""Train the embedding of voices for a telephone's band."""
