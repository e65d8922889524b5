"""A live session: audio in at any pace, the text so far out, over one Triton stream or several."""
