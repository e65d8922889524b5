"""`python -m conch.cli`."""

import sys

from conch.cli import main

if __name__ == "__main__":
    sys.exit(main())
