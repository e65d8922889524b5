"""`python -m lab paths`: accuracy against speed of several paths of one server."""
