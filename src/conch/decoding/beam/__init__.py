"""A prefix beam search over batches, with n-grams and hotwords, in numpy or torch."""
