"""Language models: the probability of a text."""
