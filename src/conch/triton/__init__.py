"""The only package that imports `triton_python_backend_utils`.

The python backend provides that module inside the server; it is never installed. `respond` answers
the requests of a component, `start` those of one whose rows are in flight together, and `settled`
frees what only its loading took. `entry_point` answers those of a BLS model. It is not imported
here, and so takes no memory of the components.
"""

from conch.component.parameters import read_parameters
from conch.triton.in_flight import finish, start
from conch.triton.memory import settled
from conch.triton.requests import respond

__all__ = ["finish", "read_parameters", "respond", "settled", "start"]
