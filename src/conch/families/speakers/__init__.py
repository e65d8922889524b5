"""Who speaks: how many at once, and whose voice it is."""
