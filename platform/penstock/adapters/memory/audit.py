"""The audit log, in memory. Twin of `adapters.postgres.audit`."""

from penstock.domain.audit import Act


class MemoryAudit:
    """Acts in order."""

    def __init__(self) -> None:
        """Start empty."""
        self._acts: list[Act] = []

    async def note(self, act: Act) -> None:
        """Add one act."""
        self._acts.append(act)

    async def newest(self, limit: int) -> tuple[Act, ...]:
        """Return the newest acts, newest first."""
        return tuple(self._acts[::-1][:limit])
