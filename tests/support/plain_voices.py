"""Servers that keep fitted voices, and work on none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from own_gateway import OwnGateway, own_gateway

from conch.fitted_voices import FittedVoice
from conch.wire.errors import AudioError, OptionError


class PlainServer:
    """Keeps voices, and works on none."""

    def __init__(self) -> None:
        self.voices: dict[str, FittedVoice] = {}
        self.asked: list[Any] = []

    async def fit_voice(self, name: str, files: Any, *, minutes: int, consent: Any) -> FittedVoice:
        self.asked.append((name, [tuple(file) for file in files], minutes, consent))
        if len(files) < 3:
            raise AudioError("a voice takes 3 to 50 recordings; sent: 1")
        self.voices[name] = FittedVoice(name=name, mix="af_sky:1.00")
        return self.voices[name]

    async def fitted_voices(self, *, timeout_s: float) -> list[FittedVoice]:
        return [*self.voices.values()]

    async def fitted_voice(self, name: str) -> FittedVoice:
        if name not in self.voices:
            raise OptionError(f"option 'name' takes a fitted voice; sent: {name!r}")
        return self.voices[name]

    async def stop_fitting(self, name: str) -> FittedVoice:
        self.voices[name] = replace(
            await self.fitted_voice(name), status="ready", curve=((0, 0.25),)
        )
        return self.voices[name]

    async def remove_voice(self, name: str) -> None:
        del self.voices[(await self.fitted_voice(name)).name]


class PlainServers:
    """The servers of a gateway; only the second one has the voices."""

    def __init__(self, *, fits: bool = True) -> None:
        self.server, self._fits = PlainServer(), fits
        self.is_ready, self.models, self.away = True, (), ()

    @property
    def clients(self) -> list[Any]:
        return [PlainServer(), self.server]

    async def ready_models(self, models: Any) -> set[str]:
        return {*models} if self._fits else {*models} - {"fitting"}

    async def answer(self, ask: Any, name: str) -> Any:
        return await ask(self.server)

    async def close(self) -> None:
        pass


@contextmanager
def voice_gateway(*, fits: bool = True) -> Iterator[tuple[OwnGateway, PlainServer]]:
    """Yield a gateway, and the server behind it that keeps the voices."""
    servers = PlainServers(fits=fits)
    with own_gateway() as running:
        running.gateway.servers = servers  # type: ignore[assignment]
        yield running, servers.server
