"""Circuits of workers, zones and versions against a table of workers in zones."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.table import VersionEntry, WorkerEntry
from penstock.domain.worker import WorkerState
from penstock.gateway.dispatch import Breakers, BreakerSettings, Change, CircuitSettings, Level
from tests.support.calls import VERSION

STEADY = BreakerSettings(circuit=CircuitSettings(open_s=1.0, most_open_s=8.0, jitter_ratio=0.0, probe_s=5.0))
OTHER = VersionId("other@0123456789ab")
TENANTS = (TenantId("acme"), TenantId("shop"))


def version(
    zones: dict[str, int], name: VersionId = VERSION.id, *, state: WorkerState = WorkerState.READY
) -> VersionEntry:
    """Return a version with so many workers in each zone, named by version, zone and number."""
    workers = tuple(
        WorkerEntry(id=WorkerId(f"{name[0]}-{zone}{n}"), url="http://x", state=state, zone=zone)
        for zone, count in zones.items()
        for n in range(count)
    )
    return replace(VERSION, id=name, workers=workers)


class Room:
    """Breakers that know these versions, and what they told."""

    def __init__(self, *versions: VersionEntry, settings: BreakerSettings = STEADY) -> None:
        self.told: list[Change] = []
        self.breakers = Breakers(random.Random(0), settings, self.told.append)
        self.breakers.learn(versions, 0.0)
        self.ids = [worker.id for one in versions for worker in one.workers]

    def of(self, prefix: str) -> list[WorkerId]:
        return [one for one in self.ids if one.startswith(prefix)]

    def lose(self, prefix: str, now: float = 0.0) -> None:
        for worker in self.of(prefix):
            self.breakers.failed(worker, now, at_once=True)

    def out(self, now: float, prefix: str = "t-") -> set[WorkerId]:
        return set(self.breakers.ejected(self.of(prefix), now))

    def opened(self, level: Level) -> list[str]:
        return [change.name for change in self.told if change.level is level and change.is_open]


def test_gray_failure_is_found_among_healthy_peers() -> None:
    """A worker that fails three in ten, never three in a row, is left alone; its peers aren't."""
    room = Room(version({"a": 3}))
    bad, good, _ = room.ids
    for n in range(30):
        for worker in (bad, good):
            if worker == bad and n % 10 in (0, 3, 6):
                room.breakers.failed(worker, n * 0.1)
            else:
                room.breakers.succeeded(worker, n * 0.1)
    assert room.opened(Level.WORKER)
    assert set(room.opened(Level.WORKER)) == {bad}


def test_where_all_fail_alike_nobody_is_an_outlier() -> None:
    """Errors in three of ten answers of every worker are the requests' fault, or the model's: nobody is left alone."""
    room = Room(version({"a": 4}))
    for n in range(100):
        for worker in room.ids:
            if n % 10 in (0, 3, 6):
                room.breakers.failed(worker, n * 0.1)
            else:
                room.breakers.succeeded(worker, n * 0.1)
    assert not room.told


def test_an_outlier_is_trusted_again_after_several_probes() -> None:
    """One success after a gray failure is luck; some in a row close the circuit."""
    room = Room(version({"a": 2}))
    bad = room.ids[0]
    now = 0.0
    while not room.opened(Level.WORKER):
        now += 0.1
        (room.breakers.failed if int(now * 10) % 3 == 0 else room.breakers.succeeded)(bad, now)
    now += 1.5
    outs = []
    for _ in range(STEADY.gray_probes):
        outs.append(bad in room.out(now))
        room.breakers.sent(bad, now)
        assert bad in room.out(now)
        room.breakers.succeeded(bad, now)
    assert not any(outs)
    assert room.told[-1] == Change(level=Level.WORKER, name=bad, is_open=False)


def test_who_flaps_is_asked_more_and_more_seldom() -> None:
    """The open time doubles with each opening, though there are successes between."""
    room = Room(version({"a": 2}))
    worker, now, waits = room.ids[0], 0.0, []
    for _ in range(4):
        room.breakers.failed(worker, now, at_once=True)
        began = now
        while worker in room.out(now):
            now += 0.25
        waits.append(now - began)
        room.breakers.sent(worker, now)
        room.breakers.succeeded(worker, now)
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_a_lost_zone_is_avoided_as_a_whole() -> None:
    """With most of a zone's workers gone, the rest of it is left alone while another zone serves."""
    room = Room(version({"a": 3, "b": 3}))
    room.lose("t-a0")
    assert not room.opened(Level.ZONE)
    room.lose("t-a1")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5) == set(room.of("t-a"))


def test_a_zone_comes_back_by_a_probe() -> None:
    """After the open time one of the zone's workers is tried; its success brings the zone back."""
    room = Room(version({"a": 3, "b": 3}))
    room.lose("t-a0")
    room.lose("t-a1")
    probe = WorkerId("t-a2")
    assert probe not in room.out(1.1)
    room.breakers.sent(probe, 1.1)
    assert probe in room.out(1.1)
    room.breakers.succeeded(probe, 1.2)
    assert room.told[-1] == Change(level=Level.ZONE, name="a", is_open=False)
    assert probe not in room.out(1.2)


def test_a_zone_is_not_avoided_where_nobody_else_can_serve() -> None:
    """A version that lives in one zone alone keeps what is left of it."""
    room = Room(version({"a": 3}))
    room.lose("t-a0")
    room.lose("t-a1")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5) == {"t-a0", "t-a1"}


def test_one_models_loss_of_a_zone_is_every_models_knowledge() -> None:
    """The zone is one circuit for all versions: who has not been asked there yet is not asked at all."""
    room = Room(version({"a": 3, "b": 1}), version({"a": 1, "b": 1}, OTHER))
    room.lose("t-a")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5, "o-") == {"o-a0"}


def test_a_model_that_fails_everywhere_says_nothing_about_zones() -> None:
    """A broken model in two zones shuts its version; other models' workers beside it are asked as ever."""
    room = Room(version({"a": 2, "b": 2}), version({"a": 1, "b": 1}, OTHER))
    for who in TENANTS * 3:
        for worker in room.of("t-"):
            room.breakers.failed(worker, 0.0, who=who)
    assert room.opened(Level.VERSION) == [VERSION.id]
    assert room.out(0.5, "o-") == set()


def test_a_version_nobody_can_reach_is_refused_early_until_a_probe() -> None:
    """All refuse connections: the version is shut for the open time, then one request may try."""
    room = Room(version({"a": 2, "b": 1}))
    room.lose("t-")
    assert room.breakers.is_unreachable(VERSION.id)
    assert room.breakers.shut_for_s(VERSION.id, 0.25) == 0.75
    assert room.breakers.shut_for_s(VERSION.id, 1.0) == 0.0
    room.breakers.sent(room.ids[0], 1.0)
    assert room.breakers.shut_for_s(VERSION.id, 1.1) > 0.0
    room.breakers.succeeded(room.ids[0], 1.2)
    assert room.breakers.shut_for_s(VERSION.id, 1.2) == 0.0
    assert not room.breakers.is_unreachable(VERSION.id)


def test_one_tenants_failures_shut_no_version() -> None:
    """Whatever one tenant sends, the others may try; once two tenants hear nothing but errors it is the model."""
    room = Room(version({"a": 1}))
    for _ in range(50):
        room.breakers.failed(room.ids[0], 0.0, who=TENANTS[0])
    assert room.breakers.shut_for_s(VERSION.id, 0.5) == 0.0
    room.breakers.failed(room.ids[0], 0.0, who=TENANTS[1])
    assert room.breakers.shut_for_s(VERSION.id, 0.5) > 0.0
    assert not room.breakers.is_unreachable(VERSION.id)


def test_a_poisonous_request_does_not_shut_a_version() -> None:
    """Errors in a row between other callers' successes shut no version, be its only worker open or not."""
    room = Room(version({"a": 1}))
    for n in range(200):
        room.breakers.failed(room.ids[0], n * 0.05)
        if n % 4 == 0:
            room.breakers.succeeded(room.ids[0], n * 0.05)
    assert not room.opened(Level.VERSION)
    assert room.out(1.0) == set()


def test_a_started_again_worker_begins_anew() -> None:
    """A worker that leaves readiness and comes back is asked at once, and its version with it."""
    entry = version({"a": 1})
    room = Room(entry)
    room.lose("t-")
    room.breakers.learn([version({"a": 1}, state=WorkerState.LOADING)], 0.1)
    room.breakers.learn([entry], 0.3)
    assert room.breakers.shut_for_s(VERSION.id, 0.4) == 0.0
    assert not room.breakers.known()


def test_what_left_the_table_is_forgotten() -> None:
    """Workers, zones and versions that left leave nothing behind, and their circuits are told closed."""
    room = Room(version({"a": 2, "b": 1}))
    room.lose("t-")
    room.breakers.learn([], 1.0)
    assert not room.breakers.known()
    assert len(room.told) % 2 == 0
    assert sum(change.is_open for change in room.told) == len(room.told) / 2


def test_suspects_are_passed_over_while_others_can_serve() -> None:
    """Who seems to stand still gets nothing new; if all do, all are asked."""
    room = Room(version({"a": 2}))
    room.breakers.suspect(frozenset(room.ids[:1]))
    assert room.out(0.0) == {room.ids[0]}
    room.breakers.suspect(frozenset(room.ids))
    assert room.out(0.0) == set()


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["fail", "at_once", "sent", "ok", "wait"]), st.integers(0, 7), st.floats(0.0, 3.0)),
    max_size=120,
)


@given(_EVENTS, st.integers(1, 4), st.integers(0, 4))
def test_bounds_hold_whatever_happens(events: list[tuple[str, int, float]], in_a: int, in_b: int) -> None:
    """Never everybody is ejected; for errors alone never more than half; what is told open is told closed."""
    room, now, hard = Room(version({"a": in_a, "b": in_b})), 0.0, False
    for what, index, seconds in events:
        worker = room.ids[index % len(room.ids)]
        if what == "wait":
            now += seconds
        elif what == "sent":
            room.breakers.sent(worker, now)
        elif what == "ok":
            room.breakers.succeeded(worker, now)
        else:
            hard |= what == "at_once"
            room.breakers.failed(worker, now, at_once=what == "at_once")
        out = room.out(now)
        assert len(out) < len(room.ids)
        if not hard and not room.opened(Level.ZONE):
            assert len(out) <= len(room.ids) / 2
    states: dict[tuple[Level, str], bool] = {}
    for change in room.told:
        assert states.get((change.level, change.name), False) is not change.is_open
        states[change.level, change.name] = change.is_open
