"""Talk to Conch from Python: `Client` for plain code, `AsyncClient` for asyncio.

In short:

    with Client("127.0.0.1:8000") as client:
        print(client.transcribe("speech.wav", nbest=3).text)
"""

from conch.client.asynchronous import AsyncClient
from conch.client.synchronous import Client
from conch.client.wire import Audio, OptionValue

__all__ = ["AsyncClient", "Audio", "Client", "OptionValue"]
