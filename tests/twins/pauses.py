"""Pauses of batch work, in memory. Twin of the pauses in `connectors.postgres.jobs`."""


class MemoryPauses:
    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    async def pause(self, scope: str, now: float) -> None:
        self.at.setdefault(scope, now)

    async def resume(self, scope: str) -> None:
        self.at.pop(scope, None)

    async def paused(self) -> frozenset[str]:
        return frozenset(self.at)
