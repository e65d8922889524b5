"""The voices of the servers behind a gateway."""

from conch.families import voices
from conch.families.family import Voice
from conch.gateway.state import Gateway
from conch.wire.entry_points import SYNTHESIS


async def served_voices(gateway: Gateway) -> list[Voice]:
    """Return the voices whose components a server has, or loads when it needs them."""
    speaking = [*dict.fromkeys(voices().values())]
    needed = {SYNTHESIS[1]}.union(*(item.components for item in speaking))
    ready = await gateway.servers.ready_models(sorted(needed))
    if SYNTHESIS[1] not in ready:
        return []
    return [
        voice for item in speaking if ready.issuperset(item.components) for voice in item.voices
    ]
