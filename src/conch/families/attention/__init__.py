"""What families share whose decoder attends to hidden states: one contract, one recogniser.

It is no family of its own: Whisper and Moonshine are.
"""
