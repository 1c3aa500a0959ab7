"""The number of a version's jobs that a runner holds: no worker runs dry of batch work, and few jobs wait there. Pure.

A job that waits at a worker is evicted for any caller, and goes back to its queue: ``WAITING`` of them cost nothing.
All others wait in the database, in their fair order.

Trade-off: runners that share a worker may each send ``WAITING``, and a tenant of few pools may for a second have more
waiting there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.report import Load

WAITING = 2
"""Jobs that wait at each worker: an engine seats the next one between two steps, and a claim takes longer."""
SEEN_S = 1.0
"""Seconds after which a worker's report contains a begun job: reports come with each answer, and by the table."""
UNKNOWN_SEATS = 8
"""Seats of an engine that does not tell them."""
MOST_HELD = 512
"""Jobs that one runner holds: its streams take one core then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One version's serving workers, and this runner's jobs of it."""

    loads: tuple[Load, ...]
    seats: int
    """Sequences that an engine decodes at once; 0 if unknown."""
    held: int = 0
    fresh: int = 0
    """Those of them begun within ``SEEN_S``: no report contains them yet."""
    pools: tuple[tuple[str, ...], ...] = ()
    """Of each of these workers; without any, of each that sleeps or starts."""


def room(lane: Lane) -> int:
    """Return the number of jobs to claim for the lane's version; one of a version that sleeps, to wake it."""
    if not lane.loads:
        return max(0, 1 - lane.held)
    return max(0, sum(_room(load, lane.seats or UNKNOWN_SEATS) for load in lane.loads) - lane.fresh)


def rooms(lanes: Mapping[VersionId, Lane]) -> dict[VersionId, int]:
    """Return the room of each version with any, within what this runner may hold."""
    left = MOST_HELD - sum(lane.held for lane in lanes.values())
    found = {version: room(lane) for version, lane in lanes.items()}
    return {version: wanted for version, wanted in _within(found.items(), left) if wanted}


def shut(lane: Lane, confined: Mapping[TenantId, frozenset[str]]) -> frozenset[TenantId]:
    """Return the tenants without a worker with room in their pools; none of a version without workers."""
    if not (confined and lane.pools):
        return frozenset()
    seats = lane.seats or UNKNOWN_SEATS
    workers = zip_longest(lane.pools, lane.loads)
    there = frozenset(pool for pools, load in workers if load is None or _room(load, seats) for pool in pools)
    return frozenset(tenant for tenant, pools in confined.items() if pools.isdisjoint(there))


def _within(wanted: Iterable[tuple[VersionId, int]], left: int) -> Iterable[tuple[VersionId, int]]:
    """Share what is left among versions, the smallest wish first."""
    ordered = sorted(wanted, key=lambda one: (one[1], one[0]))
    for at, (version, wish) in enumerate(ordered):
        part = min(wish, max(0, left) // (len(ordered) - at))
        left -= part
        yield version, part


def _room(load: Load, seats: int) -> int:
    """Return a worker's room: none if jobs wait there already, since its door seats no more of them."""
    if load.waiting >= WAITING:
        return 0
    return max(0, seats - load.running) + WAITING - load.waiting
