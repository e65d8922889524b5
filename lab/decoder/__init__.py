"""`python -m lab decoder`: CTC decoding alone, next to pyctcdecode."""
