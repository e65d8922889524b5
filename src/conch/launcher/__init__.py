"""Find, start, watch and stop one `tritonserver`.

config = ServerConfig(model_repositories=("bls_models", "component_models"))
with TritonServer(config) as server:
    print(server.http_url)
"""

from conch.launcher.config import ServerConfig
from conch.launcher.loaded_models import without_weights
from conch.launcher.repositories import shipped_repositories
from conch.launcher.triton_server import TritonServer

__all__ = ["ServerConfig", "TritonServer", "shipped_repositories", "without_weights"]
