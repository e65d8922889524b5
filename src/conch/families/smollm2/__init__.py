"""Neural language models: the probability of a text by a transformer, on CTranslate2."""
