"""Models of other families on the CTC model's encoder, most of which stays as it is."""
