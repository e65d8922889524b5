"""Show on the terminal what a campaign does."""

import sys


def say(message: str) -> None:
    print(f"chaos: {message}", file=sys.stderr, flush=True)
