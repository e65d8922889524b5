"""`GET /v1/components`: the components of Conch, and which of them a request needs."""

import msgspec
from aiohttp import web
from multidict import MultiDict

from conch.gateway import file_request
from conch.gateway.listen_query import query_of
from conch.gateway.state import GATEWAY
from conch.wire.needs import components_for


async def list_components(request: web.Request) -> web.Response:
    """Answer with the components that a request with the fields of the query needs."""
    aliases = request.app[GATEWAY].config.model_aliases
    query = MultiDict(request.query)
    if query.pop("live", "false").lower() in ("true", "1"):
        options = query_of(list(query.items()), aliases).parsed
    else:
        fields = {name: tuple(query.getall(name)) for name in query}
        options = file_request.parse(fields, aliases).parsed
    body = msgspec.json.encode({"components": components_for(options)})
    return web.Response(body=body, content_type="application/json")
