"""Whom to leave alone for a while: what this gateway learns of workers from their answers, zone and version included.

A refused connection opens a worker's circuit at once; errors open it after some in a row, or where they are clearly
more than its peers' (gray failure). For errors at most half of the workers are left alone, and never all of them for
anything. What that says of zones and versions is the surroundings' business (``surroundings.py``).

Trade-off: errors of bad requests look like errors of bad workers. So single failures open nothing, and a worker is
compared with its peers. Nobody's word is needed: each gateway learns for itself, which costs each of them some
retries, and no gateway can be misled by another. One tenant's failures never shut a version to the others.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.table import VersionEntry
from penstock.gateway.dispatch.outliers import Tally, is_outlier, most_ejected
from penstock.gateway.dispatch.places import Places
from penstock.gateway.dispatch.records import BreakerSettings, Change, Level, Record, Switches
from penstock.gateway.dispatch.surroundings import Surroundings

NOBODY = TenantId("")


def _nobody(_: Change) -> None:
    """Nobody listens."""


class Breakers:
    """All circuits of a gateway; only those with a failure on their record are kept."""

    def __init__(
        self,
        chance: random.Random,
        settings: BreakerSettings | None = None,
        on_change: Callable[[Change], None] = _nobody,
    ) -> None:
        """``chance`` jitters the open times, so that gateways don't probe together."""
        self._settings = settings or BreakerSettings()
        self._switches = Switches(self._settings, chance, on_change)
        self._workers: dict[WorkerId, Record] = {}
        self._around = Surroundings(self._switches, self._workers)
        self._suspects: frozenset[WorkerId] = frozenset()

    def learn(self, versions: Iterable[VersionEntry], now: float) -> None:
        """Take in a new table: what left is forgotten, and who was started again begins anew."""
        before, after = self._around.places, Places(versions)
        self._around.learn(after, now)
        for worker in [w for w in self._workers if w not in after.of or (w in after.ready and w not in before.ready)]:
            self._switches.close(Level.WORKER, worker, self._workers.pop(worker).circuit, now)
            self._around.began_anew(after.of.get(worker), now)

    def suspect(self, workers: frozenset[WorkerId]) -> None:
        """Prefer others to these until told otherwise: they seem to stand still, and nobody knows yet."""
        self._suspects = workers

    def known(self) -> frozenset[WorkerId]:
        """Workers with a failure on their record."""
        return frozenset(self._workers)

    # -- whom to ask -----------------------------------------------------------------------

    def ejected(self, workers: Sequence[WorkerId], now: float, among: int = 0) -> frozenset[WorkerId]:
        """Return which of these to leave alone: never all of them, those that open soonest are kept.

        Where these are a sample of a version that has so many workers (``among``) it may be all: others can be drawn.
        """
        if not self._workers and not self._suspects:
            return frozenset()
        out = self._individually(workers, now, among)
        out |= self._around.avoided(workers, out, now, is_sample=bool(among))
        if among:
            return frozenset(out | self._suspects.intersection(workers))
        if out and len(out) == len(workers):
            out.remove(min(workers, key=self._opens_at))
        slow = out | self._suspects.intersection(workers)
        return frozenset(slow if len(slow) < len(workers) else out)

    def shut_for_s(self, version: VersionId, now: float) -> float:
        """Return for how long this version refuses early; 0 where requests may be sent."""
        return self._around.shut_for_s(version, now)

    def is_unreachable(self, version: VersionId) -> bool:
        """Tell whether the version is shut because nobody takes its connections: only a start will help."""
        return self._around.is_unreachable(version)

    # -- what happened -----------------------------------------------------------------------

    def sent(self, worker: WorkerId, now: float) -> None:
        """A request goes to this worker; where something is half-open it is the probe."""
        record = self._workers.get(worker)
        if record is not None:
            record.circuit.sent(now)
        self._around.sent(worker, now)

    def succeeded(self, worker: WorkerId, now: float) -> None:
        """This worker answered."""
        record = self._workers.get(worker)
        if record is not None:
            self._note_success(worker, record, now)
        self._around.succeeded(worker, now)

    def failed(self, worker: WorkerId, now: float, *, at_once: bool = False, who: TenantId = NOBODY) -> bool:
        """This worker failed a request of this tenant; ``at_once``: it can't be reached.

        True where it is left alone from now on.
        """
        record = self._workers.get(worker)
        if record is None:
            record = self._workers[worker] = self._switches.record(Level.WORKER, now)
        record.in_a_row += 1
        record.is_hard = at_once or (record.is_hard and record.circuit.is_open)
        record.tally.count(now, bad=True)
        opened = False
        is_gray = is_outlier(record.tally, self._peers(worker), self._settings.outliers)
        if at_once or is_gray or record.circuit.is_open or record.in_a_row >= self._settings.failures:
            probes = self._settings.gray_probes if is_gray else 1
            opened = self._switches.trip(Level.WORKER, worker, record.circuit, now, probes=probes)
        self._around.failed(worker, now, who)
        return opened

    def _note_success(self, worker: WorkerId, record: Record, now: float) -> None:
        record.in_a_row = 0
        record.tally.count(now, bad=False)
        if record.is_hard:
            record.is_hard = False
            self._switches.close(Level.WORKER, worker, record.circuit, now)
        elif self._switches.passed(Level.WORKER, worker, record.circuit, now):
            record.tally = Tally(self._settings.outliers.half_life_s, now)
        if record.is_clean(now):
            del self._workers[worker]

    # -- workers -------------------------------------------------------------------------------

    def _individually(self, workers: Sequence[WorkerId], now: float, among: int) -> set[WorkerId]:
        """Return who can't be reached, and who fails, the latter within their bound: first who stays open longest.

        A sample is held to the bound where so many of all workers have failed that it may be reached.
        """
        out = [(w, r) for w in workers if (r := self._workers.get(w)) is not None and not r.circuit.allows(now)]
        failing = sorted((w for w, r in out if not r.is_hard), key=self._opens_at, reverse=True)
        most = most_ejected(len(workers), self._settings.outliers)
        if len(self._workers) <= most_ejected(among, self._settings.outliers):
            most = len(workers)
        return {w for w, r in out if r.is_hard} | set(failing[:most])

    def _opens_at(self, worker: WorkerId) -> float:
        record = self._workers.get(worker)
        return record.circuit.open_until if record else 0.0

    def _peers(self, worker: WorkerId) -> list[float]:
        records = self._workers
        return [records[w].tally.ratio if w in records else 0.0 for w in self._around.places.peers(worker)]
