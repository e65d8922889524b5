"""Write the log of a model as Triton writes its own."""

import json
import logging
import sys
import time

from conch.wire.access import fields_of, to_line

_LETTERS = {"DEBUG": "V", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "E"}


class TritonFormatter(logging.Formatter):
    """Lines as those of Triton: `I1123 17:54:10.870000 4711 file.py:12] "message"`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, in ASCII; its time is UTC."""
        fields = fields_of(record)
        text = super().format(record) if fields is None else to_line(fields)
        at = time.strftime("%m%d %H:%M:%S", time.gmtime(record.created))
        micros = int(record.created % 1 * 1e6)
        letter = _LETTERS.get(record.levelname, "I")
        where = f"{record.filename}:{record.lineno}"
        return f"{letter}{at}.{micros:06d} {record.process} {where}] {json.dumps(text)}"


class StderrHandler(logging.Handler):
    """Writes records to the present `sys.stderr`.

    `pb_utils.Logger` would send each through shared memory, from a thread that ends the process
    where none is left (Triton 2.51). That is when the log is needed most.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a failure is no error of the request that it is about."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def log_to_stderr() -> None:
    """Log to standard error from level info up; Python by itself drops lines below warning."""
    logger = logging.getLogger("conch")
    if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
        handler = StderrHandler()
        handler.setFormatter(TritonFormatter())
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
