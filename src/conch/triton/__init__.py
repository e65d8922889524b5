"""The only package that imports `triton_python_backend_utils`.

The python backend provides that module inside the server; it is never installed. `respond` answers
the requests of a component, and `settled` frees what only its loading took.

`EntryPoint`, in `entry_point`, answers those of a BLS model. `publish_streams`, in `metrics`,
publishes the number of open streams of a component. They are not imported here: they need the
orchestrator and its readers of audio, which would take 10 MB of each component's process.
"""

from conch.component.parameters import read_parameters
from conch.triton.memory import settled
from conch.triton.requests import respond

__all__ = ["read_parameters", "respond", "settled"]
