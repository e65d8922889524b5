"""`python -m lab fairness`: who waits how long when a server has more to do than it can."""
