"""`python -m lab offline`: `conch bench offline` next to a baseline, and of joined recordings."""
