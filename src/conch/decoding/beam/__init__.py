"""A prefix beam search over batches, with n-grams, in numpy or torch."""
