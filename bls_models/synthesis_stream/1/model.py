"""The synthesis model under the decoupled policy: one response per chunk, at once.

The process of `synthesis` answers, so that both share limits and order.
"""

from conch.bls.relay import RelayConfig
from conch.triton.models import bls_model
from conch.triton.relay_point import RelayPoint

TritonPythonModel = bls_model(RelayPoint, RelayConfig)
