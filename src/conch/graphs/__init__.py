"""Making a decoding graph of a lexicon and an n-gram model: a tool, which serving never imports."""
