"""Chooses the awake workers if more versions are deployed than fit into the pool. Pure: claims and residents in, orders
out.

A claim takes the bytes of idle residents past their residency, those with the least use; only claims put workers to
sleep. After ``patience_s`` no other claim overtakes it; after ``turn_s`` busy residents must sleep as well, once their
streams have ended. Pinned versions, those in a rollout, those with held requests and recent arrivals are never victims.

Trade-off: if more versions are always busy than fit, each turn costs the time of the longest stream and a wake.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from penstock.control.pool import why
from penstock.domain.fleet.decision import Decision
from penstock.domain.ids import VersionId, WorkerId


class Stay(StrEnum):
    AWAY = "away"
    """The worker sleeps and holds nothing."""
    COMING = "coming"
    """The worker starts or wakes, and holds its memory or will."""
    HERE = "here"
    FALLING_ASLEEP = "falling_asleep"
    """The worker was ordered to sleep and still holds its memory."""
    LEAVING = "leaving"
    """The worker ends, and still holds its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    worker: WorkerId
    version: VersionId
    size_bytes: int
    stay: Stay
    is_busy: bool = False
    since: float = 0.0
    """When it became ready; 0 if unknown."""
    used_at: float = 0.0
    uses_per_s: float = 0.0
    """Expected uses a second; 0 if it was never used."""
    wake_s: float = 0.0
    """Seconds of a wake, by its last start; 0 if unknown."""


_GOING = frozenset({Stay.FALLING_ASLEEP, Stay.LEAVING})
_STAYING = frozenset({Stay.COMING, Stay.HERE})


class Rank(IntEnum):
    KEPT = 0
    WAITED_FOR = 1
    NEW = 2
    SECOND = 3
    """Another worker of a version that serves: it takes free bytes and displaces no resident."""


_SPARED = frozenset({Rank.KEPT, Rank.WAITED_FOR})
"""Residents of versions needed now, with all their workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceClaim:
    """A claim to wake the sleeping ``worker``, or to start one if it is None."""

    version: VersionId
    size_bytes: int
    rank: Rank
    signal: str
    value: str
    """The reason, in words."""
    worker: WorkerId | None = None
    since: float = math.inf
    """Order among claims of its rank; of held requests, the begin of the wait."""
    held_since: float = math.inf
    """The begin of its held requests' wait, whatever its rank."""
    holds_bytes: int = 0
    """Bytes still held by a worker that was ordered to sleep: waking it costs nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """``limit_bytes`` 0: no pool. A resident stays at least for ``residency_s`` and for ``residency_wakes`` times its
    wake, so that most of its time is service.
    """

    limit_bytes: int = 0
    lease_s: float = 5.0
    """Seconds after which a heartbeat no longer describes its worker."""
    residency_s: float = 5.0
    residency_wakes: float = 2.0
    patience_s: float = 5.0
    turn_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    start: tuple[VersionId, ...] = ()
    wake: tuple[WorkerId, ...] = ()
    sleep: tuple[WorkerId, ...] = ()
    why: tuple[Decision, ...] = ()


@dataclass(slots=True)
class _Room:
    policy: PoolPolicy
    free: int
    """Bytes that no resident holds."""
    leaving: int
    """Bytes of residents that are falling asleep or ending."""
    most: int
    """The most bytes that a claim can have: versions that never sleep hold the rest."""
    idle: dict[WorkerId, Resident]
    busy: dict[WorkerId, Resident]
    """Residents that may be put to sleep only after ``turn_s``."""
    start: list[VersionId] = field(default_factory=list)
    wake: list[WorkerId] = field(default_factory=list)
    sleep: list[WorkerId] = field(default_factory=list)
    why: list[Decision] = field(default_factory=list)
    is_awaited: bool = False
    """Whether a claim waits for a leaving resident's memory."""

    def serve(self, claim: PlaceClaim, now: float) -> None:
        if claim.holds_bytes:
            if not self.is_awaited:
                self.leaving -= claim.holds_bytes
                self._place(claim, 0)
        elif claim.size_bytes <= self.free:
            self._place(claim, claim.size_bytes)
        elif claim.rank is not Rank.SECOND:
            self._gather(claim, now)

    def shrink(self, over: int) -> None:
        chosen = _victims(self.idle.values(), over)
        for resident in list(self.idle.values()) if chosen is None else chosen:
            self._sleep(resident, why.too_many(resident.worker, over, self.policy.limit_bytes))

    def _sleep(self, resident: Resident, reason: Decision) -> None:
        self.idle.pop(resident.worker, None)
        self.busy.pop(resident.worker, None)
        self.sleep.append(resident.worker)
        self.leaving += resident.size_bytes
        self.why.append(reason)

    def _place(self, claim: PlaceClaim, size_bytes: int) -> None:
        self.free -= size_bytes
        if claim.worker is None:
            self.start.append(claim.version)
        else:
            self.wake.append(claim.worker)
            self.why.append(why.woken(claim.worker, claim.version, claim.signal, claim.value))

    def _gather(self, claim: PlaceClaim, now: float) -> None:
        short = claim.size_bytes - self.free - self.leaving
        chosen = _victims(self.idle.values(), short)
        if chosen is None:
            chosen = self._turn(claim, short, now)
        if chosen is None:
            self.why.append(why.no_place(claim.version, claim.signal, claim.size_bytes, self.policy.limit_bytes))
            if claim.size_bytes > self.most or now - claim.since <= self.policy.patience_s:
                return
            chosen = list(self.idle.values())
        self.is_awaited = True
        for resident in chosen:
            told = why.slept(
                resident.worker,
                resident.version,
                claim.version,
                claim.signal,
                is_turn=resident.worker in self.busy,
            )
            self._sleep(resident, told)
        taken = min(claim.size_bytes, self.free)
        self.free -= taken
        self.leaving -= min(self.leaving, claim.size_bytes - taken)

    def _turn(self, claim: PlaceClaim, short: int, now: float) -> list[Resident] | None:
        if now - claim.held_since <= self.policy.turn_s or claim.size_bytes > self.most:
            return None
        busy = _victims(self.busy.values(), short - sum(one.size_bytes for one in self.idle.values()))
        if busy is None:
            return None
        rest = short - sum(one.size_bytes for one in busy)
        return [*busy, *(_victims(self.idle.values(), rest) or ())]


def pack(
    residents: Sequence[Resident],
    claims: Iterable[PlaceClaim],
    kept: Collection[VersionId],
    now: float,
    policy: PoolPolicy,
) -> Packed:
    """Workers of ``kept`` versions never sleep; return wakes, starts and sleeps."""
    claims = sorted(claims, key=lambda one: (one.rank, one.since, one.version, one.worker or ""))
    spared = {*kept, *(one.version for one in claims if one.rank in _SPARED)}
    others = [one for one in residents if one.version not in spared and one.stay is Stay.HERE]
    held = sum(one.size_bytes for one in residents if one.stay is not Stay.AWAY)
    room = _Room(
        policy=policy,
        free=max(0, policy.limit_bytes - held),
        leaving=sum(one.size_bytes for one in residents if one.stay in _GOING),
        most=policy.limit_bytes
        - sum(one.size_bytes for one in residents if one.version in kept and one.stay in _STAYING),
        idle={one.worker: one for one in others if _may_sleep(one, now, policy)},
        busy={one.worker: one for one in others if one.is_busy and _was_here(one, now, policy)},
    )
    if held - room.leaving > policy.limit_bytes:
        room.shrink(held - room.leaving - policy.limit_bytes)
    for claim in claims:
        room.serve(claim, now)
    return Packed(
        start=tuple(room.start),
        wake=tuple(room.wake),
        sleep=tuple(room.sleep),
        why=tuple(room.why),
    )


def _may_sleep(resident: Resident, now: float, policy: PoolPolicy) -> bool:
    """Idle and past its residency; a proven worker that was never used has none."""
    return not resident.is_busy and (not resident.uses_per_s or _was_here(resident, now, policy))


def _was_here(resident: Resident, now: float, policy: PoolPolicy) -> bool:
    return now - resident.since >= max(policy.residency_s, policy.residency_wakes * resident.wake_s)


def _victims(idle: Iterable[Resident], short: int) -> list[Resident] | None:
    """The least loss of use that frees ``short`` bytes; None if there are not enough.

    Greedy knapsack cover by use per byte, without needless ones, or the one resident that is enough, whichever loses
    less: at most twice the optimum (Csirik et al., Acta Cybernetica 10, 1991).
    """
    found: list[Resident] = []
    freed = 0
    ordered = sorted(idle, key=lambda one: (one.uses_per_s / max(1, one.size_bytes), one.used_at, one.worker))
    for resident in ordered:
        if freed >= short:
            break
        found.append(resident)
        freed += resident.size_bytes
    if freed < short:
        return None
    for resident in sorted(found, key=lambda one: (one.uses_per_s, one.used_at, one.worker), reverse=True):
        if freed - resident.size_bytes >= short:
            found.remove(resident)
            freed -= resident.size_bytes
    alone = min((one for one in ordered if one.size_bytes >= short > 0), key=lambda one: one.uses_per_s, default=None)
    if alone is not None and alone.uses_per_s <= sum(one.uses_per_s for one in found):
        return [alone]
    return found
