"""What families share whose search reads an encoder's frames: one contract, one recogniser.

It is no family of its own: CTC and transducers are.
"""
