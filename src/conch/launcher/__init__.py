"""Finds, starts, watches and stops one `tritonserver`.

config = ServerConfig(model_repositories=("bls_models", "component_models"))
with TritonServer(config) as server:
    print(server.http_url)
"""

from conch.server.config import ServerConfig
from conch.server.launcher import TritonServer
from conch.server.logs import LogLine
from conch.server.repositories import shipped_repositories

__all__ = ["LogLine", "ServerConfig", "TritonServer", "shipped_repositories"]
