"""`python -m lab offline`: `conch bench offline` with a baseline and joined recordings."""
