"""Talk to Conch from Python: `Client` for plain code, `AsyncClient` for asyncio.

In short:

    with Client("127.0.0.1:8000") as client:
        print(client.transcribe("speech.wav", nbest=3).text)

    with Client("grpc://127.0.0.1:8001") as client:
        for part in client.stream("lecture.mp3"):
            print(part.text)

    with Client("127.0.0.1:8000") as client, client.live() as stream:
        for chunk in microphone:
            print(stream.send(chunk).text)
        print(stream.finish().text)
"""

from conch.client.asynchronous import AsyncClient
from conch.client.live import AsyncLiveStream, Resumption
from conch.client.speech import Speech
from conch.client.synchronous import Client, LiveStream
from conch.client.tensors import Audio, OptionValue
from conch.wire.parts import joined_parts

__all__ = [
    "AsyncClient",
    "AsyncLiveStream",
    "Audio",
    "Client",
    "LiveStream",
    "OptionValue",
    "Resumption",
    "Speech",
    "joined_parts",
]
