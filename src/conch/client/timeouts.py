"""`asyncio.timeout`, which Python 3.10 lacks; async-timeout is the package that it was made from.

Both end with `asyncio.TimeoutError`, which is the built-in one from Python 3.11 on.
"""

import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

__all__ = ["timeout"]
