"""N-gram language models: their files, their table, and the probabilities of words."""
