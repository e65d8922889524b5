"""`python -m lab live`: what a viewer of live streams sees."""
