"""Load a model of this server over its own repository API.

`pb_utils.load_model` of Triton 2.51 holds Python's lock until the model is loaded, so all requests
of the process would stand still.
"""

import asyncio
import json
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from conch.triton.components import TRACEBACK
from conch.wire.entry_points import OnDemandSettings
from conch.wire.errors import ComponentError

TIMEOUT_S = 120.0
"""Seconds for a model to load."""


async def load(settings: OnDemandSettings, model: str) -> None:
    """Load a model and wait until it is ready; raise a ComponentError with Triton's message."""
    await asyncio.to_thread(_load, settings, model)


def _load(settings: OnDemandSettings, model: str) -> None:
    headers = {"Content-Type": "application/json", **settings.headers}
    request = Request(f"{settings.url}/{model}/load", b"{}", headers)
    try:
        # The server is on this machine, whatever proxy the environment names.
        build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S).close()
    except HTTPError as error:
        with error:
            said = error.read().decode("utf-8", "replace")
        try:
            said = str(json.loads(said)["error"])
        except (ValueError, KeyError, TypeError):
            said = said or str(error)
        raise ComponentError(said.partition(TRACEBACK)[0].strip()) from None
    except (URLError, OSError) as error:
        raise ComponentError(f"the server has not answered: {error}") from None
