"""A tenant that asks for more than its worker can do, behind a gateway that remembers the worker's refusals."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest

from loadtests import overload
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, Worker
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.tenancy.standing import Standing
from penstock.gateway.calls.demand import Demand
from penstock.gateway.routing.turned_away import ASKS_PER_END, TurnedAway
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.work import Work
from tests.support.variants import drilled

FLOOD, VERSION = TenantId("flood"), VersionId("v@1")
WORKER = WorkerEntry(id=WorkerId("w"), url="http://127.0.0.1:1", state=WorkerState.READY)
SPAN_S = 30.0


@dataclass
class Told:
    """What came of a flood: answers in time, and requests that the worker was asked."""

    in_time: int = 0
    asked: int = 0
    ended: int = 0


class Flood:
    """Requests of one tenant; ``remembers``: the gateway keeps refusals and lets requests ask again as others end."""

    def __init__(self, patience_s: float, *, per_s: float, remembers: bool) -> None:
        self._worker = Worker(AdmissionQueue(overload.SIZE), EngineModel(SMOLLM2_TWO_CORES, max_seqs=overload.SLOTS))
        self._memory, self._remembers, self._known = TurnedAway(), remembers, 0
        self._patience_s, self._per_s, self.told = patience_s, per_s, Told()

    def play(self) -> Told:
        for arrival in self._traffic(random.Random(1)):
            self._worker._at(arrival.at, partial(self._come, arrival))
        self._worker.run(SPAN_S + self._patience_s)
        self.told.in_time = self._worker.records[FLOOD].in_time
        return self.told

    def _traffic(self, chance: random.Random) -> Iterator[Arrival]:
        at, number = 0.0, 0
        while (at := at + chance.expovariate(self._per_s)) < SPAN_S:
            number += 1
            work = Work(
                request=RequestId(str(number)),
                tenant=FLOOD,
                standing=Standing.PAID,
                weight=1.0,
                prompt_tokens=60,
                expected_output_tokens=20,
                deadline_at=at + self._patience_s,
            )
            arrival = Arrival(at=at, work=work, output_tokens=1 + int(chance.expovariate(1 / 10)))
            yield replace(arrival, then=self._ended(work.request))

    def _ended(self, request: RequestId) -> Callable[[float], None]:
        def ended(now: float) -> None:
            if all(one.work.request != request for one in self._worker.refused[-2:]):
                self.told.ended += 1
                self._memory.ended(VERSION, FLOOD, now)

        return ended

    def _come(self, arrival: Arrival) -> None:
        memory, now, demand = self._memory, self._worker.now, Demand(FLOOD, 100, self._patience_s)
        if self._remembers and memory.at(VERSION, (WORKER,), now, demand) and not memory.ask(VERSION, FLOOD):
            return
        self.told.asked += 1
        self._worker.arrive(arrival)
        for one in self._worker.refused[self._known :]:
            memory.note(WORKER.id, VERSION, now, one.told_s, demand)
        self._known = len(self._worker.refused)


@pytest.mark.parametrize("patience_s", [1.0, *drilled([3.0, 10.0])])
def test_a_remembered_refusal_leaves_no_worker_idle(
    patience_s: float, record_property: Callable[[str, object], None]
) -> None:
    """A tenant beyond its queue is answered as often as if its worker were asked each time, however short its waits."""
    before, now = (Flood(patience_s, per_s=60.0, remembers=remembers).play() for remembers in (False, True))
    record_property("in_time", (before.in_time, now.in_time))
    assert now.in_time >= 0.95 * before.in_time


def test_a_flood_asks_about_as_often_as_it_is_answered(record_property: Callable[[str, object], None]) -> None:
    """Of twenty times a worker's capacity most requests are refused by the gateway, and as many as before answered."""
    before, now = (Flood(3.0, per_s=600.0, remembers=remembers).play() for remembers in (False, True))
    record_property("asked", (before.asked, now.asked, now.ended))
    assert now.asked <= ASKS_PER_END * now.ended + overload.SLOTS
    assert now.in_time >= 0.95 * before.in_time
