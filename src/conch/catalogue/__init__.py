"""Models: which are available, which are on this machine, and whether they are complete."""
