"""The speech model under the decoupled policy: one response per segment, at once.

The process of `speech` answers, so that both share limits and order.
"""

from conch.bls.relay import RelayConfig
from conch.triton.models import bls_model
from conch.triton.relay_point import RelayPoint

TritonPythonModel = bls_model(RelayPoint, RelayConfig)
