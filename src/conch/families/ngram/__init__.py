"""N-gram language models: the probability of a text by its words."""
