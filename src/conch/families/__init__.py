"""The models that Conch works with: a folder for each family."""
