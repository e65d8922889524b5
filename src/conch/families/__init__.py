"""What the components compute: a package for each family of models."""
