"""Piper: voices of the user's own, each a network of VITS in a file."""
