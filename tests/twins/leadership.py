"""Who leads, in this process. Twin of `connectors.postgres.leadership`."""


class LeaderLock:
    """The one lock that candidates compete for."""

    def __init__(self) -> None:
        self.holder: MemoryLeadership | None = None

    async def leader(self) -> str:
        return self.holder.name if self.holder else ""


class MemoryLeadership:
    """One candidate."""

    def __init__(self, lock: LeaderLock, name: str = "controller") -> None:
        self._lock, self.name = lock, name

    async def is_mine(self) -> bool:
        """Take it or confirm it."""
        if self._lock.holder is None:
            self._lock.holder = self
        return self._lock.holder is self

    async def resign(self) -> None:
        if self._lock.holder is self:
            self._lock.holder = None
