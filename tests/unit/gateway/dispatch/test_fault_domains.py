"""Zones and versions: what their workers' circuits say of them."""

from penstock.domain.ids import WorkerId
from penstock.gateway.dispatch.records import Change, FailureEvidence, Level, ProbeResult
from tests.support.gateways.breakers import OTHER, Room, origin, version
from tests.support.samples.calls import VERSION

MANY = ("acme", "shop", "forum", "bank")


def fails(_: WorkerId) -> ProbeResult:
    """Every worker fails its probe."""
    return ProbeResult.FAILED


# -- zones ------------------------------------------------------------------------------------


def test_a_lost_zone_is_avoided_as_a_whole_until_its_rest_has_answered() -> None:
    """With most of a zone's workers gone the rest is passed over and asked; who answers serves on."""
    room = Room(version({"a": 3, "b": 3}))
    room.lose("t-a0")
    assert not room.opened(Level.ZONE)
    room.lose("t-a1")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5) == set(room.of("t-a"))
    assert room.probe(0.5) == ["t-a2"]
    assert room.out(0.5) == {"t-a0", "t-a1"}


def test_a_zone_comes_back_with_its_workers() -> None:
    """As soon as no more than half of it is down, the zone is told well."""
    room = Room(version({"a": 3, "b": 3}))
    room.lose("t-a")
    assert room.opened(Level.ZONE) == ["a"]
    room.probe(1.0)
    assert not room.out(1.0)
    assert Change(level=Level.ZONE, name="a", is_open=False) in room.told


def test_a_zone_is_not_avoided_where_nobody_else_can_serve() -> None:
    """A version that lives in one zone alone keeps what is left of it."""
    room = Room(version({"a": 3}))
    room.lose("t-a0")
    room.lose("t-a1")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5) == {"t-a0", "t-a1"}


def test_one_models_loss_of_a_zone_is_every_models_knowledge() -> None:
    """The zone is one domain for all versions: who has not been asked there yet is asked by the platform first."""
    room = Room(version({"a": 3, "b": 1}), version({"a": 1, "b": 1}, OTHER))
    room.lose("t-a")
    assert room.opened(Level.ZONE) == ["a"]
    assert room.out(0.5, "o-") == {"o-a0"}
    assert room.probe(0.5, lambda _: ProbeResult.CLOSED) == ["o-a0"]


def test_a_model_that_is_down_everywhere_says_nothing_about_zones() -> None:
    """A broken model in two zones shuts its version; other models' workers beside it are asked as ever."""
    room = Room(version({"a": 2, "b": 2}), version({"a": 1, "b": 1}, OTHER))
    for worker in room.of("t-"):
        room.fail(worker, 0.0)
    room.probe(0.0, fails)
    assert room.opened(Level.VERSION) == [VERSION.id]
    room.probe(0.3)
    assert room.out(0.5, "o-") == set()


# -- versions ---------------------------------------------------------------------------------


def test_a_version_nobody_can_reach_is_refused_early_until_a_probe_passes() -> None:
    """All refuse connections: the version is shut, and opens when the platform was answered, at no caller's cost."""
    room = Room(version({"a": 2, "b": 1}))
    room.lose("t-")
    assert room.breakers.is_unreachable(VERSION.id)
    assert room.breakers.shut_for_s(VERSION.id, 0.25) == 0.75
    assert room.breakers.shut_for_s(VERSION.id, 1.0) > 0.0
    room.probe(1.0, lambda one: ProbeResult.PASSED if one == "t-a1" else ProbeResult.CLOSED)
    assert room.breakers.shut_for_s(VERSION.id, 1.2) == 0.0
    assert not room.breakers.is_unreachable(VERSION.id)
    assert room.out(1.2) == {"t-a0", "t-b0"}


def test_a_version_whose_probes_fail_is_shut_but_not_unreachable() -> None:
    """One tenant's 500 and one failed probe are enough: the platform has seen it itself."""
    room = Room(version({"a": 1}))
    room.fail(room.ids[0], 0.0)
    room.probe(0.0, fails)
    assert room.breakers.shut_for_s(VERSION.id, 0.5) == 0.5
    assert not room.breakers.is_unreachable(VERSION.id)


def test_one_worker_that_lives_keeps_its_version_open() -> None:
    """Down is who is proven down; what callers say of the last one shuts nothing."""
    room = Room(version({"a": 3}))
    room.lose("t-a0")
    room.lose("t-a1")
    for n in range(100):
        room.fail(room.ids[2], n * 0.1, FailureEvidence.BROKEN, origin(MANY[n % 4], str(n)))
        room.probe(n * 0.1, lambda one: ProbeResult.PASSED if one == "t-a2" else ProbeResult.CLOSED)
    assert not room.opened(Level.VERSION)
