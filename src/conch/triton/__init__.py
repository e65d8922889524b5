"""The only package that knows `triton_python_backend_utils`.

Inside the server the python backend provides that module; it is never installed. `respond` answers
the requests of a component, `EntryPoint` those of a BLS model; `publish_streams` tells the metrics
port how many streams a component keeps.
"""

from conch.component.parameters import read_parameters
from conch.triton.entry_point import EntryPoint
from conch.triton.metrics import publish_streams
from conch.triton.requests import respond

__all__ = ["EntryPoint", "publish_streams", "read_parameters", "respond"]
