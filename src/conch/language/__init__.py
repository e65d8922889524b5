"""Text as language models read it."""
