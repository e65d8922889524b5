"""How probable a text is as language."""
