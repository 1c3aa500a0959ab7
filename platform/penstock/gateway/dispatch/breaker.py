"""Circuit breakers of workers: this gateway's knowledge, from evidence that callers can't produce.

* A refused connection opens a worker's circuit at once.
* Any other failure causes a probe of the worker. If the probe fails, the circuit opens; if it passes, the engine's
  error is charged to its tenant and shape (``charges.py``).

An open circuit closes when a probe passes or the worker was restarted.

Trade-off: each gateway learns by itself, at the cost of some retries and probes.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from itertools import islice

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.calls.doubt import Doubt
from penstock.gateway.dispatch.blame import Blame
from penstock.gateway.dispatch.charges import Charges, Origin
from penstock.gateway.dispatch.circuit import USUAL, Circuit, CircuitSettings
from penstock.gateway.dispatch.fault_domains import FaultDomains
from penstock.gateway.dispatch.places import Place, Places
from penstock.gateway.dispatch.probes import ProbePlan
from penstock.gateway.dispatch.records import (
    Change,
    FailureEvidence,
    Level,
    Probe,
    ProbeResult,
    Tell,
    Why,
    WorkerRecord,
)

_ASKED_FOR_THE_WAIT = 64
"""Workers of a shut version examined for its wait, which each refusal reports."""

PASSES = 3
"""Consecutive passed probes that close the circuit of a worker that failed one; one may be luck."""
_MAYBE_GONE = frozenset({FailureEvidence.BROKEN, FailureEvidence.UNREACHED})
"""Failures after which a worker is skipped until its probe."""


def _nobody(_: Change) -> None: ...


class Breakers:
    def __init__(self, chance: random.Random, circuit: CircuitSettings = USUAL, on_change: Tell = _nobody) -> None:
        self._circuit = circuit
        self._chance = chance
        self._tell = on_change
        self._workers: dict[WorkerId, WorkerRecord] = {}
        self._open: set[WorkerId] = set()
        self._domains = FaultDomains(on_change)
        self._plan = ProbePlan()
        self._stalled: frozenset[WorkerId] = frozenset()
        self._acquitted: set[WorkerId] = set()
        self._doubted: set[WorkerId] = set()
        self.charges = Charges()
        self._blame = Blame()
        self.woken = asyncio.Event()
        """Set when a probe is wanted that was not before."""

    def learn(self, versions: Iterable[VersionEntry], now: float) -> None:
        """Records of removed and of restarted workers are dropped."""
        before, after = self._domains.places, Places(versions)
        mates = self._domains.learn(after)
        gone = [w for w in self._workers if w not in after.of or (w in after.ready and w not in before.ready)]
        for worker in gone:
            record = self._workers.pop(worker)
            self._plan.forget(worker)
            self._doubted.discard(worker)
            self._blame.settle(worker, now, passed=False)
            self._close(worker, record, now, "began anew" if worker in after.of else "left", before.of.get(worker))
        self._doubt(mates)
        self._blame.keep(after.known)

    def suspect(self, stalled: frozenset[WorkerId], now: float) -> None:
        for worker in stalled - self._stalled:
            self._want(Probe(worker=worker, why=Why.SILENT))
        self._stalled = stalled
        self._acquitted &= stalled
        for worker in [w for w, one in self._workers.items() if one.circuit.is_calm(now) and not self._is_asked(w)]:
            del self._workers[worker]

    def known(self) -> frozenset[WorkerId]:
        return frozenset(self._workers)

    # -- whom to ask -----------------------------------------------------------------------

    def ejected(self, workers: Sequence[WorkerId], now: float, among: int = 0) -> frozenset[WorkerId]:
        """Return the workers to skip; if all are ejected, the one with the soonest probe stays."""
        del now
        if not self._open and not self._stalled and not self._doubted:
            return frozenset()
        out = self._open.intersection(workers)
        unsure = (self._stalled - self._acquitted) | self._doubted
        passed_over = out.union(unsure.intersection(workers))
        if among or len(passed_over) < len(workers):
            return frozenset(passed_over)
        if out and len(out) == len(workers):
            out.remove(min(workers, key=self._probe_at))
        return frozenset(out)

    def shut_for_s(self, version: VersionId, now: float) -> float:
        if not self._domains.is_shut(version):
            return 0.0
        members = islice(self._domains.places.in_version[version], _ASKED_FOR_THE_WAIT)
        left_s = min(self._probe_at(worker) for worker in members) - now
        return left_s if left_s > 0.0 else self._circuit.open_s  # a probe is under way

    def is_shut(self, version: VersionId) -> bool:
        return self._domains.is_shut(version)

    def is_doubted(self, worker: WorkerId) -> bool:
        """Tell whether the worker may be gone: its circuit is open, or it was not probed since a connection failed."""
        return worker in self._doubted or worker in self._open

    def is_unreachable(self, version: VersionId) -> bool:
        if not self._domains.is_shut(version):
            return False
        members = islice(self._domains.places.in_version[version], _ASKED_FOR_THE_WAIT)
        return all(worker in self._workers and self._workers[worker].is_hard for worker in members)

    # -- what happened to callers' requests ------------------------------------------------------

    def succeeded(self, worker: WorkerId, now: float) -> None:
        record = self._workers.get(worker)
        if record is not None:
            record.alive_at = now

    def failed(self, worker: WorkerId, evidence: FailureEvidence, origin: Origin, now: float) -> bool:
        if evidence is FailureEvidence.ANSWERED and self.charges.covers(origin, now):
            return False
        record = self._record(worker)
        if evidence is FailureEvidence.CLOSED:
            if not record.circuit.is_open:
                self._prove(worker, record, now, "no connection")
            record.is_hard = True
            return True
        if evidence in _MAYBE_GONE and worker in self._domains.places.ready:
            self._doubted.add(worker)
        self._want(Probe(worker=worker, why=Why(evidence), origin=origin))
        return True

    def doubt(self, worker: WorkerId, origin: Origin, now: float, *, is_charged: bool) -> Doubt:
        """Return whether the failure given to ``failed`` is its caller's fault: settled by a charge or the probe."""
        doubt, place = Doubt(), self.place_of(worker)
        if place is not None and is_charged:
            return self.refused(origin.adapter or place.version, origin, now)
        if place is None or not self._is_asked(worker):
            doubt.settle(is_own=False)
            return doubt
        version = origin.adapter or place.version
        self._blame.complained(version, origin, now)
        self._blame.wait(worker, version, doubt)
        return doubt

    def refused(self, version: VersionId, origin: Origin, now: float) -> Doubt:
        """Return a settled question: the caller's own unless others fail at this version, too."""
        doubt = Doubt()
        self._blame.complained(version, origin, now)
        doubt.settle(is_own=not self._blame.is_widespread(version, now))
        return doubt

    # -- what the platform asks ---------------------------------------------------------------------

    def ask_again(self) -> None:
        for probe in self._plan.interrupted():
            self._want(probe)

    def due(self, now: float) -> list[Probe]:
        due = [worker for worker in self._to_close() if self._probe_at(worker) <= now]
        return self._plan.take([Probe(worker=worker, why=Why.HALF_OPEN) for worker in due], now)

    def next_due_at(self) -> float:
        """Return the second of the next probe; infinite without any."""
        return min(self._plan.next_at(), min(map(self._probe_at, self._to_close()), default=float("inf")))

    def place_of(self, worker: WorkerId) -> Place | None:
        return self._domains.places.of.get(worker)

    def url_of(self, worker: WorkerId) -> str:
        return self._domains.places.urls.get(worker, "")

    def serving_urls(self) -> list[str]:
        places = self._domains.places
        return [places.urls[worker] for worker in places.ready]

    def has_answered_since(self, worker: WorkerId, since: float) -> bool:
        record = self._workers.get(worker)
        return record is not None and record.alive_at > since

    def judged(self, probe: Probe, finding: ProbeResult, now: float) -> None:
        record = self._workers.get(probe.worker)
        if not self._plan.ended(probe, now) or record is None:
            return
        self._doubted.discard(probe.worker)
        self._blame.settle(probe.worker, now, passed=finding is ProbeResult.PASSED)
        if finding in (ProbeResult.FAILED, ProbeResult.CLOSED):
            self._prove(probe.worker, record, now, f"probe {finding}")
            record.is_hard = finding is ProbeResult.CLOSED
            record.left = 1 if record.is_hard else PASSES
            return
        if probe.worker in self._stalled:
            self._acquitted.add(probe.worker)
        if finding is ProbeResult.PASSED and probe.why is Why.ANSWERED and probe.origin is not None:
            self.charges.charge(probe.origin, now)
        if probe.why is Why.HALF_OPEN:
            self._passed(probe.worker, record, now)

    # -- circuits ----------------------------------------------------------------------------------

    def _passed(self, worker: WorkerId, record: WorkerRecord, now: float) -> None:
        record.left -= 1
        if record.left > 0:
            record.circuit.probe_at = now + self._circuit.open_s
        else:
            self._close(worker, record, now, "probe passed", self.place_of(worker))

    def _prove(self, worker: WorkerId, record: WorkerRecord, now: float, reason: str) -> None:
        was_open = record.circuit.is_open
        self._blame.settle(worker, now, passed=False)
        record.circuit.trip(now, self._chance)
        self._open.add(worker)
        self._plan.drop(worker)
        if not was_open:
            place = self.place_of(worker)
            version = place.version if place else ""
            self._tell(Change(level=Level.WORKER, name=worker, is_open=True, reason=reason, version=version))
        self.woken.set()
        self._doubt(self._domains.down(worker))

    def _close(self, worker: WorkerId, record: WorkerRecord, now: float, reason: str, place: Place | None) -> None:
        record.is_hard, record.left = False, 1
        self._open.discard(worker)
        self._domains.up(worker)
        if record.circuit.is_open:
            record.circuit.close(now)
            version = place.version if place else ""
            self._tell(Change(level=Level.WORKER, name=worker, is_open=False, reason=reason, version=version))

    # -- probes ------------------------------------------------------------------------------------

    def _doubt(self, workers: Iterable[WorkerId]) -> None:
        for worker in workers:
            self._doubted.add(worker)
            self._want(Probe(worker=worker, why=Why.ZONE))

    def _want(self, probe: Probe) -> None:
        if probe.worker not in self._domains.places.ready or self._record(probe.worker).circuit.is_open:
            return  # one that is open is asked anyway, when its time has come
        if self._plan.want(probe):
            self.woken.set()

    def _to_close(self) -> list[WorkerId]:
        ready = self._domains.places.ready
        return [worker for worker in self._open if worker in ready and not self._plan.is_running(worker)]

    def _is_asked(self, worker: WorkerId) -> bool:
        return self._plan.is_running(worker) or self._plan.is_wanted(worker)

    # -- workers -------------------------------------------------------------------------------

    def _record(self, worker: WorkerId) -> WorkerRecord:
        record = self._workers.get(worker)
        if record is None:
            record = self._workers[worker] = WorkerRecord(Circuit(self._circuit))
        return record

    def _probe_at(self, worker: WorkerId) -> float:
        record = self._workers.get(worker)
        return record.circuit.probe_at if record else 0.0
