"""Workers' last heartbeats, in memory. Twin of `connectors.postgres.leases`."""

from collections.abc import Sequence

from penstock.domain.fleet.versions import Seen
from penstock.domain.ids import WorkerId


class MemoryLeases:
    """One entry per worker; an older heartbeat never replaces a newer one."""

    def __init__(self) -> None:
        self._seen: dict[WorkerId, Seen] = {}

    async def save(self, seen: Sequence[Seen]) -> None:
        """Store heartbeats."""
        for one in seen:
            kept = self._seen.get(one.report.worker)
            if kept is None or kept.at <= one.at:
                self._seen[one.report.worker] = one

    async def load(self, after: float) -> tuple[Seen, ...]:
        """Return the heartbeats since ``after`` (Unix seconds), by worker."""
        return tuple(one for _, one in sorted(self._seen.items()) if one.at >= after)

    async def forget(self, before: float) -> None:
        self._seen = {worker: one for worker, one in self._seen.items() if one.at >= before}
