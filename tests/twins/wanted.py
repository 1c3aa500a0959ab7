"""Which versions gateways hold requests for, in memory. Twin of `connectors.postgres.wanted`, both sides."""

import asyncio
from collections.abc import Callable

from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId


class MemoryWanted:
    """Hands over to whoever listens at the moment, and keeps nothing."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Wanted], None]] = []

    async def tell(self, version: VersionId, requests: int, tokens: int) -> None:
        """Say that so much is held for a version now."""
        for listener in self._listeners:
            listener(Wanted(version=version, requests=requests, tokens=tokens))

    async def run(self, on_wanted: Callable[[Wanted], None]) -> None:
        """Hand over each as it is told, until cancelled."""
        self._listeners.append(on_wanted)
        try:
            await asyncio.Event().wait()
        finally:
            self._listeners.remove(on_wanted)
