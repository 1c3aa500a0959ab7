"""Gateways' reports of demand, in memory. Twin of `connectors.postgres.demand`, both sides."""

import asyncio
from collections.abc import Callable

from penstock.domain.fleet.demand import GatewayReport


class MemoryDemand:
    """Hands over to all that listen at the moment, and keeps nothing."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[GatewayReport], None]] = []

    async def tell(self, report: GatewayReport) -> None:
        for listener in self._listeners:
            listener(report)

    async def run(self, on_report: Callable[[GatewayReport], None]) -> None:
        """Hand over each as it is told, until cancelled."""
        self._listeners.append(on_report)
        try:
            await asyncio.Event().wait()
        finally:
            self._listeners.remove(on_report)
