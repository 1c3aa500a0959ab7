"""Sampled picks: what holds of the full scan holds of them."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import Rejected
from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import Prepared
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.records import FailureEvidence
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.load_board import LoadBoard, SeenLoad
from penstock.gateway.routing.prefix_index import MAX_HOLDERS
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.selection import RouterSettings, SampleSettings
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.gateways.breakers import origin
from tests.support.samples.calls import VERSION

MOST_WAITING = 4
EVERYBODY = SampleSettings(choices=10**6)
SMALL = SampleSettings().choices + MAX_HOLDERS
SHORT = Prepared(prompt_tokens=20)
NOBODY: frozenset[WorkerId] = frozenset()
Look = Callable[[WorkerId, Load, float, float], SeenLoad]


class Fleet:
    """A version, and two routers that know the same of it: one draws, one scans."""

    def __init__(self, size: int, zones: str = "a", *, seed: int = 1) -> None:
        self.clock, self.table = ManualClock(), CurrentTable()
        self.breakers = Breakers(random.Random(seed))
        self.table.on_change(lambda _, after: self.breakers.learn(after.table.versions, after.at))
        self.ids = [WorkerId(f"w{n}") for n in range(size)]
        self.drawing, self.scanning = self._router(SampleSettings(), seed), self._router(EVERYBODY, seed)
        self.version = replace(
            VERSION, workers=tuple(self._entry(w, zones[n % len(zones)]) for n, w in enumerate(self.ids))
        )
        self.table.swap(RoutingTable(number=1, made_at=0.0, versions=(self.version,)), 0.0)

    def heard(self, worker: WorkerId, load: Load) -> None:
        self.drawing.heard(worker, load)
        self.scanning.heard(worker, load)

    def pick(self, prepared: Prepared = SHORT, tried: frozenset[WorkerId] = NOBODY) -> WorkerId:
        return self.drawing.pick(self.version, prepared, lambda _: None, tried).id

    def _router(self, sample: SampleSettings, seed: int) -> WorkerRouter:
        return WorkerRouter(
            table=self.table,
            health=self.breakers,
            clock=self.clock,
            chance=random.Random(seed),
            settings=RouterSettings(max_waiting=MOST_WAITING, sample=sample),
            metrics=Metrics(),
        )

    @staticmethod
    def _entry(worker: WorkerId, zone: str) -> WorkerEntry:
        return WorkerEntry(id=worker, url=f"http://{worker}", state=WorkerState.READY, zone=zone)


def picked(router: WorkerRouter, version: VersionEntry, tried: frozenset[WorkerId]) -> WorkerId | str:
    """Return whom a router picks, or why it refuses."""
    try:
        return router.pick(version, SHORT, lambda _: None, tried).id
    except Rejected as refusal:
        return refusal.code


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Fleet, frozenset[WorkerId]]:
    """Return a fleet larger than a sample in which workers are full, failing or out of reach, and who was tried."""
    fleet = Fleet(
        draw(st.integers(SMALL + 1, 40)), draw(st.sampled_from(["a", "ab", "abc"])), seed=draw(st.integers(0, 99))
    )
    some = st.sets(st.sampled_from(fleet.ids), max_size=len(fleet.ids))
    for worker in sorted(draw(some)):
        fleet.heard(worker, Load(waiting=MOST_WAITING))
    for worker in sorted(draw(some)):
        fleet.breakers.failed(
            worker, draw(st.sampled_from([FailureEvidence.CLOSED, FailureEvidence.BROKEN])), origin(), 0.0
        )
    fleet.breakers.suspect(frozenset(draw(some)), 0.0)
    fleet.clock.advance(draw(st.sampled_from([0.0, 0.3, 0.7])))
    return fleet, frozenset(draw(some))


@given(fleets())
def test_nobody_is_refused_while_a_worker_is_able(state: tuple[Fleet, frozenset[WorkerId]]) -> None:
    """It refuses exactly where the scan of all does, in the same words, and never picks who was tried or is full."""
    fleet, tried = state
    scanned, drawn = (picked(router, fleet.version, tried) for router in (fleet.scanning, fleet.drawing))
    assert (drawn in fleet.ids) == (scanned in fleet.ids)
    if drawn in fleet.ids:
        assert drawn not in tried
        assert fleet.drawing._board.seen(WorkerId(drawn), Load(), 0.0, 0.0).load.waiting < MOST_WAITING
    else:
        assert drawn == scanned
    assert (fleet.drawing.wait_s(fleet.version) < float("inf")) == (fleet.scanning.wait_s(fleet.version) < float("inf"))


@given(fleets())
def test_who_is_left_alone_stays_alone(state: tuple[Fleet, frozenset[WorkerId]]) -> None:
    """While no more than half have failed, whom the scan would leave alone is not drawn either."""
    fleet, tried = state
    left = [w for w in fleet.ids if w not in tried]
    alone = fleet.breakers.ejected(left, fleet.clock.monotonic())
    drawn = picked(fleet.drawing, fleet.version, tried)
    if 2 * len(fleet.breakers.known()) <= len(fleet.ids) and set(left) - alone and drawn in fleet.ids:
        room = {w for w in left if w not in alone and _has_room(fleet, w)}
        assert drawn not in alone or not room


def _has_room(fleet: Fleet, worker: WorkerId) -> bool:
    return fleet.drawing._board.seen(worker, Load(), 0.0, fleet.clock.monotonic()).load.waiting < MOST_WAITING


@pytest.mark.parametrize("able", range(0, 300, 60))
def test_the_last_worker_that_can_is_found(able: int) -> None:
    """One of 300 can be reached: chance hardly draws it, and it is picked all the same."""
    fleet = Fleet(300, "abc")
    for worker in fleet.ids:
        if worker != fleet.ids[able]:
            fleet.breakers.failed(worker, FailureEvidence.CLOSED, origin(), 0.0)
    assert {fleet.pick() for _ in range(5)} == {fleet.ids[able]}


def test_a_lost_zone_is_not_drawn() -> None:
    """A third of 300 workers is in a zone that is left alone: none of 2,000 picks goes there."""
    fleet = Fleet(300, "abc")
    zone = set(fleet.ids[::3])
    for worker in sorted(zone)[:60]:
        fleet.breakers.failed(worker, FailureEvidence.CLOSED, origin(), 0.0)
    assert not zone & {fleet.pick() for _ in range(2_000)}


def test_more_than_half_are_never_left_alone_for_errors() -> None:
    """Where two thirds fail some requests, they are not all avoided: the rest would drown."""
    fleet = Fleet(300)
    for worker in fleet.ids[:200]:
        for n in range(12):
            fleet.breakers.failed(worker, FailureEvidence.SILENT, origin(f"tenant {n % 4}", f"shape {n % 3}"), 0.0)
    got = Counter(fleet.pick() for _ in range(2_000))
    assert sum(got[w] for w in fleet.ids[:200]) > 0.02 * got.total()


def test_the_holders_of_a_prefix_are_always_looked_at() -> None:
    """In 500 workers a prompt's next turn finds the one that has its beginning."""
    fleet = Fleet(500)
    for turn in range(50):
        prompt = Prepared(prompt_tokens=1_000, blocks=tuple(range(turn * 100, turn * 100 + 60)))
        first = fleet.pick(prompt)
        assert fleet.pick(prompt) == first


def test_a_pick_looks_at_few_whatever_the_size() -> None:
    """As many workers are looked at in a fleet of 10,000 as in one of 20: the sample and the holders."""
    looks: list[int] = []
    for size in (20, 10_000):
        fleet = Fleet(size)
        looks.append(0)
        look = fleet.drawing._board.seen

        def counted(worker: WorkerId, load: Load, at: float, now: float, look: Look = look) -> SeenLoad:
            looks[-1] += 1
            return look(worker, load, at, now)

        with patch.object(LoadBoard, "seen", staticmethod(counted)):
            for _ in range(100):
                fleet.pick()
    assert looks == [100 * SampleSettings().choices] * 2


def test_small_fleets_are_scanned_whole() -> None:
    """Up to a sample and its holders every worker is compared: the idle one is always found."""
    fleet = Fleet(SMALL)
    for worker in fleet.ids[:-1]:
        fleet.heard(worker, Load(queued_tokens=5_000))
    assert {fleet.pick() for _ in range(50)} == {fleet.ids[-1]}
