"""What refused callers are told to wait, beside when they would really have been let wait."""

import math
import random
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from loadtests import overload
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel
from loadtests.simulator.worker import Arrival, RefusedRequest, Worker
from penstock.domain.ids import RequestId
from penstock.domain.outage import SHORTEST_WAIT_S
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.retries import Retries
from penstock.worker.gate.queueing.work import Work
from tests.support.variants import drilled

LOAD, WATCHED_FROM_S, WATCHED_TO_S, SPAN_S = 2.5, 30.0, 60.0, 120.0
BURST_S = 15.0
LOOK_EVERY_S = 0.2
SEEDS = range(1, 6)
"""One run follows about eighty callers, too few to tell nine of ten from eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A refused caller: when it was, what it was told, when it would have been taken, whether it would when told."""

    at: float
    told_s: float
    really_s: float
    right: bool


class Watch:
    """Asks the queue on behalf of refused callers, again and again, whether they would be taken by now."""

    def __init__(self, queue: AdmissionQueue) -> None:
        self._queue = queue
        self._waiting: list[RefusedRequest] = []
        self._unasked: list[RefusedRequest] = []
        self._right: dict[RequestId, bool] = {}
        self._first: dict[RequestId, tuple[RefusedRequest, float]] = {}

    def add(self, one: RefusedRequest) -> None:
        self._waiting.append(one)
        self._unasked.append(one)

    def look(self, now: float) -> None:
        """Ask for each request not taken yet, and for those whose told time has come."""
        for one in self._waiting:
            if self._is_taken(one, now):
                self._first[one.work.request] = (one, now - one.at)
        self._waiting = [one for one in self._waiting if one.work.request not in self._first]
        for one in [one for one in self._unasked if one.at + one.told_s <= now]:
            self._right[one.work.request] = self._is_taken(one, now)
            self._unasked.remove(one)

    def met(self) -> list[Met]:
        """Return the requests that would have been taken by now."""
        return [
            Met(at=one.at, told_s=one.told_s, really_s=really, right=self._right.get(name, False))
            for name, (one, really) in self._first.items()
        ]

    def _is_taken(self, one: RefusedRequest, now: float) -> bool:
        return self._queue.forecast.late_s(replace(one.work, deadline_at=now + overload.PATIENCE_S), now) is None


def refused(until_s: float) -> list[Met]:
    """Return the requests that several runs refused on arrival."""
    return [one for seed in SEEDS for one in _refused(until_s, random.Random(seed))]


def _refused(until_s: float, chance: random.Random) -> list[Met]:
    """Play 2.5 times the capacity until then, go on to the end, and follow the requests refused on arrival
    meanwhile.
    """
    queue = AdmissionQueue(overload.SIZE)
    worker, watch = Worker(queue, EngineModel(SMOLLM2_TWO_CORES, max_seqs=overload.SLOTS)), Watch(queue)
    per_s = LOAD * overload.capacity() / (overload.MEAN_PROMPT + 2.0 * overload.MEAN_OUTPUT)
    coming = deque(overload.traffic(per_s, chance, patience_s=overload.PATIENCE_S, span_s=until_s))
    known, looked_at = 0, 0.0
    while worker.now < SPAN_S:
        while coming and coming[0].at <= worker.now:
            worker.arrive(coming.popleft())
        worker.step()
        for one in worker.refused[known:]:
            on_arrival = one.work.deadline_at - one.at > overload.PATIENCE_S - 0.5
            if one.why is Shed.LATE and on_arrival and WATCHED_FROM_S < one.at < WATCHED_TO_S:
                watch.add(one)
        known = len(worker.refused)
        if worker.now >= looked_at + LOOK_EVERY_S:
            looked_at = worker.now
            watch.look(looked_at)
    return watch.met()


def test_what_refused_callers_are_told_is_about_what_it_takes(record_property: Callable[[str, object], None]) -> None:
    """In the midst of an overload nine of ten would find room when they were told to come, and hardly sooner."""
    met = refused(SPAN_S)
    told, really = statistics.mean(one.told_s for one in met), statistics.mean(one.really_s for one in met)
    right = statistics.mean(one.right for one in met)
    record_property("mean_s", {"told": told, "really": really, "right_ratio": right})
    assert len(met) > 600
    assert right >= 0.9
    assert told <= 1.5 * max(really, SHORTEST_WAIT_S)


def test_who_comes_back_after_the_overload_is_taken(record_property: Callable[[str, object], None]) -> None:
    """Without further arrivals, nine of ten find room at the time they were told."""
    after = [one for one in refused(WATCHED_TO_S) if one.at + one.told_s > WATCHED_TO_S]
    record_property("right_ratio", statistics.mean(one.right for one in after))
    assert len(after) > 60
    assert round(statistics.mean(one.right for one in after), 1) >= 0.9


class NoPlaces(Retries):
    """The queue without places: a returning caller is a new one, and no line is before it."""

    def takes(self, work: Work, now: float) -> bool:
        return False

    def before(self, work: Work, share: float, now: float) -> float:
        return 0.0


@dataclass(slots=True)
class Coming:
    """The fate of callers, some of whom come again when they were told to, once each."""

    obeying: float
    came: int = 0
    taken: int = 0
    good: float = 0.0
    told_s: list[float] = field(default_factory=list)

    def play(self, returns: Retries, *, until_s: float, load: float = LOAD) -> "Coming":
        """Play this load until then, and let time pass until everything is over."""
        chance, queue = random.Random(1), AdmissionQueue(overload.SIZE)
        queue.forecast.retries = returns
        worker = Worker(queue, EngineModel(SMOLLM2_TWO_CORES, max_seqs=overload.SLOTS))
        per_s = load * overload.capacity() / (overload.MEAN_PROMPT + 2.0 * overload.MEAN_OUTPUT)
        for one in overload.traffic(per_s, random.Random(2), patience_s=overload.PATIENCE_S, span_s=until_s):
            worker.expect(replace(one, then=partial(self._again, worker, one, chance)))
        worker.run(until_s + 2 * overload.PATIENCE_S)
        self.good = sum(record.good for record in worker.records.values())
        return self

    def _again(self, worker: Worker, one: Arrival, chance: random.Random, now: float) -> Arrival | None:
        """Return the same request once more, by a new name, if it was refused and its caller obeys."""
        refused = worker.refused[-1] if worker.refused else None
        if refused is None or refused.work.request != one.work.request:
            return None
        self.told_s.append(refused.told_s)
        if chance.random() >= self.obeying:
            return None
        at = now + math.ceil(refused.told_s)
        again = replace(one.work, request=RequestId(f"{one.work.request}/2"), deadline_at=at + overload.PATIENCE_S)
        self.came += 1
        return replace(one, at=at, work=again, then=self._over(again, worker))

    def _over(self, again: Work, worker: Worker) -> Callable[[float], None]:
        def over(_: float) -> None:
            self.taken += all(one.work.request != again.request for one in worker.refused)

        return over


@pytest.mark.parametrize("obeying", [0.5, *drilled([0.1])])
def test_who_comes_back_in_a_lasting_overload_mostly_finds_room(
    obeying: float, record_property: Callable[[str, object], None]
) -> None:
    """Coming back when told helped one of five, as much as coming at any time; the engine does as much as before."""
    before, now = (Coming(obeying).play(queue, until_s=SPAN_S) for queue in (NoPlaces(), Retries()))
    ratios = before.taken / before.came, now.taken / now.came
    record_property("taken_ratio", ratios)
    assert ratios[1] >= 2 * ratios[0]
    assert now.good >= 0.95 * before.good, "at the end fewer are left that wait"


def test_places_cost_a_short_burst_nothing(record_property: Callable[[str, object], None]) -> None:
    """More returning callers are taken and answered, and no one is told more than all of its work takes."""
    before, now = (Coming(1.0).play(queue, until_s=BURST_S) for queue in (NoPlaces(), Retries()))
    mean_s = statistics.mean(before.told_s), statistics.mean(now.told_s)
    record_property("told_s", mean_s)
    assert now.taken / now.came >= before.taken / before.came
    assert now.good >= before.good
    assert max(now.told_s) <= LOAD * BURST_S
