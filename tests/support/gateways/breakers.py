"""Breakers against a table of workers in zones, with probes that answer by the test's order."""

import random
from collections.abc import Callable
from dataclasses import replace

from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.charges import Origin, Shape
from penstock.gateway.dispatch.circuit import CircuitSettings
from penstock.gateway.dispatch.records import Change, FailureEvidence, Level, Probe, ProbeResult
from tests.support.samples.calls import VERSION

STEADY = CircuitSettings(open_s=1.0, most_open_s=8.0, jitter_ratio=0.0)
OTHER = VersionId("other@0123456789ab")
Find = Callable[[WorkerId], ProbeResult]


def origin(tenant: str = "acme", shape: str = "chat") -> Origin:
    return Origin(TenantId(tenant), Shape(shape))


def all_pass(_: WorkerId) -> ProbeResult:
    return ProbeResult.PASSED


def version(
    zones: dict[str, int], name: VersionId = VERSION.id, *, state: WorkerState = WorkerState.READY
) -> VersionEntry:
    """Return a version with this number of workers in each zone, named by version, zone and number."""
    workers = tuple(
        WorkerEntry(id=WorkerId(f"{name[0]}-{zone}{n}"), url="http://x", state=state, zone=zone)
        for zone, count in zones.items()
        for n in range(count)
    )
    return replace(VERSION, id=name, workers=workers)


class Room:
    """Breakers that know these versions, and what they told."""

    def __init__(self, *versions: VersionEntry, circuit: CircuitSettings = STEADY) -> None:
        self.told: list[Change] = []
        self.breakers = Breakers(random.Random(0), circuit, self.told.append)
        self.breakers.learn(versions, 0.0)
        self.ids = [worker.id for one in versions for worker in one.workers]
        self.asked: list[Probe] = []

    def of(self, prefix: str) -> list[WorkerId]:
        """Return the workers by the start of their names."""
        return [one for one in self.ids if one.startswith(prefix)]

    def lose(self, prefix: str, now: float = 0.0) -> None:
        """Refuse a connection at each of these."""
        for worker in self.of(prefix):
            self.fail(worker, now, FailureEvidence.CLOSED)

    def fail(
        self,
        worker: WorkerId,
        now: float,
        evidence: FailureEvidence = FailureEvidence.ANSWERED,
        who: Origin | None = None,
    ) -> None:
        self.breakers.failed(worker, evidence, who or origin(), now)

    def probe(self, now: float, find: Find = all_pass) -> list[WorkerId]:
        """Probe the workers that are due, and return them."""
        probes = self.breakers.due(now)
        self.asked += probes
        for probe in probes:
            self.breakers.judged(probe, find(probe.worker), now)
        return [probe.worker for probe in probes]

    def out(self, now: float, prefix: str = "t-") -> set[WorkerId]:
        """Return which of these are left alone."""
        return set(self.breakers.ejected(self.of(prefix), now))

    def opened(self, level: Level) -> list[str]:
        return [change.name for change in self.told if change.level is level and change.is_open]
