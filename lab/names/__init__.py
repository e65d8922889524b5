"""`python -m lab names`: how many listed names each decoder finds, and what that costs."""
