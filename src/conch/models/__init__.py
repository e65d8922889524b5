"""Models behind the components, one package per family."""
