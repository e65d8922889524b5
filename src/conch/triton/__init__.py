"""The only package that imports `triton_python_backend_utils`.

The python backend provides that module inside the server; it is never installed. `respond` answers
the requests of a component, and `EntryPoint` those of a BLS model. `publish_streams` publishes the
number of open streams of a component as a metric.
"""

from conch.component.parameters import read_parameters
from conch.triton.entry_point import EntryPoint
from conch.triton.metrics import publish_streams
from conch.triton.requests import respond

__all__ = ["EntryPoint", "publish_streams", "read_parameters", "respond"]
