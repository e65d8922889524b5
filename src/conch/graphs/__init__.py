"""Make a decoding graph from a lexicon and an n-gram model: a tool that serving never imports."""
