"""The audit log, in memory. Twin of `connectors.postgres.audit`."""

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import ALL, Act, Selection


class MemoryAudit:
    """Acts in order."""

    def __init__(self) -> None:
        self._acts: list[Act] = []

    async def note(self, act: Act) -> None:
        """Add one act."""
        self._acts.append(act)

    async def note_threshold(self, act: Act) -> bool:
        if any((act.what, act.target) == (one.what, one.target) for one in self._acts):
            return False
        self._acts.append(act)
        return True

    async def newest(self, limit: int, *, tenant: TenantId | None = None, of: Selection = ALL) -> tuple[Act, ...]:
        """Return the newest acts, newest first."""
        return tuple([act for act in self._acts[::-1] if tenant in {None, act.tenant} and of.holds(act)][:limit])
