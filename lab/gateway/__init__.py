"""`python -m lab gateway`: what the gateway adds to the work of Triton."""
