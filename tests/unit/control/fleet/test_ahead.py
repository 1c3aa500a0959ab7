"""The versions that nodes' caches get before workers of them come."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.control.fleet.ahead import MOST_WORKERS, ahead
from penstock.domain.fleet.versions import Deployment, FleetView, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId
from tests.support.samples import control_plane as things

OLD, NEW, OTHER = VersionId("chat@old"), VersionId("chat@new"), VersionId("other@1")
DEPLOYED = tuple(Deployment(version=version, replicas=1) for version in (OLD, NEW, OTHER))
SEEN = tuple(things.seen(things.report(version, version)) for version in (OLD, NEW, OTHER))


def told(
    deployed: tuple[Deployment, ...] = DEPLOYED,
    moving: Mapping[VersionId, VersionId] | None = None,
    seen: tuple[Seen, ...] = SEEN,
    **view: object,
) -> dict[str, list[VersionId]]:
    found = ahead(deployed, moving or {}, seen, FleetView(**view))  # type: ignore[arg-type]
    return {worker: list(versions) for worker, versions in found.items() if versions}


def test_nothing_is_fetched_that_nothing_needs() -> None:
    """Versions with their workers, and without a rollout, are told to no node."""
    assert told() == {}


def test_a_rollouts_candidate_comes_to_the_incumbents_nodes() -> None:
    """They give up their devices as the share moves; before what is short of workers, and once."""
    short = (replace(DEPLOYED[1], replicas=2), replace(DEPLOYED[2], replicas=2))
    assert told(moving={OLD: NEW}) == {OLD: [NEW]}
    assert told(short, moving={OLD: NEW}) == {OLD: [NEW, OTHER], NEW: [OTHER], OTHER: [NEW]}


def test_a_number_that_rose_comes_to_nodes_of_the_same_device() -> None:
    """A floor or forecast above the serving workers; a worker that still starts, or leaves, is told nothing."""
    short = (replace(DEPLOYED[1], replicas=3),)
    starting = things.seen(things.report("w", OTHER, WorkerState.LOADING))
    assert told(short, seen=(*SEEN, starting)) == {OLD: [NEW], OTHER: [NEW]}
    assert told(short, devices={OLD: "l4", NEW: "h100", OTHER: "h100"}) == {OTHER: [NEW]}


def test_a_large_fleet_does_not_fetch_everywhere() -> None:
    """One more worker of a version is no reason to fill hundreds of caches."""
    many = tuple(things.seen(things.report(f"w{number}", OLD)) for number in range(100))
    assert len(told((replace(DEPLOYED[1], replicas=1),), seen=many)) == MOST_WORKERS
