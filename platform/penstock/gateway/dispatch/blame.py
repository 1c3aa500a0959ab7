"""Decides whether an engine's failure is charged to the caller, or counts against the error budget. Pure.

If the engine passes the platform's probe afterwards, the body is at fault. The failure is the platform's if the probe
fails or has no result, or if enough tenants have failures at a version, with requests of different shapes.

Trade-off: with one or two tenants, a fault that the probe does not trigger spends no error budget.
"""

from collections import defaultdict

from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.gateway.calls.doubt import Doubt
from penstock.gateway.dispatch.charges import Origin, Shape

LEAST_TENANTS, LEAST_SHAPES = 3, 2
"""The numbers of failing tenants and shapes that count against a version."""
LASTS_S = 600.0
"""A failure's lifetime."""
MOST_TENANTS = 64
"""Tenants remembered per version; the one with the oldest failure is dropped."""
MOST_DOUBTS = 1024
"""Failures waiting for one worker's probe; further ones count as the platform's at once."""


class Blame:
    """Each tenant has one vote per version, its last failure."""

    __slots__ = ("_complaints", "_doubts")

    def __init__(self) -> None:
        self._complaints: defaultdict[VersionId, dict[TenantId, tuple[float, Shape]]] = defaultdict(dict)
        self._doubts: defaultdict[WorkerId, list[tuple[VersionId, Doubt]]] = defaultdict(list)

    def complained(self, version: VersionId, origin: Origin, now: float) -> None:
        of_version = self._complaints[version]
        of_version.pop(origin.tenant, None)
        of_version[origin.tenant] = (now, origin.shape)
        if len(of_version) > MOST_TENANTS:
            del of_version[next(iter(of_version))]

    def is_widespread(self, version: VersionId, now: float) -> bool:
        of_version = self._complaints.get(version, {})
        late = [(tenant, shape) for tenant, (at, shape) in of_version.items() if now - at <= LASTS_S]
        return len(late) >= LEAST_TENANTS and len({shape for _, shape in late}) >= LEAST_SHAPES

    def wait(self, worker: WorkerId, version: VersionId, doubt: Doubt) -> None:
        waiting = self._doubts[worker]
        if len(waiting) >= MOST_DOUBTS:
            doubt.settle(is_own=False)
            return
        waiting.append((version, doubt))

    def settle(self, worker: WorkerId, now: float, *, passed: bool) -> None:
        """``passed`` is False also for a probe without a result."""
        for version, doubt in self._doubts.pop(worker, ()):
            doubt.settle(is_own=passed and not self.is_widespread(version, now))

    def keep(self, versions: frozenset[VersionId]) -> None:
        for version in self._complaints.keys() - versions:
            del self._complaints[version]
