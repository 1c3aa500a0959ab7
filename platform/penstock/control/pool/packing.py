"""Who is awake: more versions are deployed than fit into the pool's bytes. Pure: claims and residents in, orders out.

A claim is a worker that wants a place, because somebody waits for it, because it may not sleep, or because it is new.
Claims are served in order: who may not sleep, then who is waited for longest, then new workers, then second ones. A
claim that lacks bytes takes them from idle residents that were here long enough, at the least loss (``_victims``).
Nobody is put to sleep for anything but a claim: who has a place keeps it.

A claim that could not be served for ``patience_s`` is passed by nobody any more: what it needs is gathered for it, and
stays empty meanwhile. Who is waited for longer than ``turn_s`` takes its turn: residents that have work are told to
sleep too, where those without it are not enough. Nothing is cut off: what runs ends first, and whoever comes meanwhile
waits for a turn of its own. Who is pinned, moves in a rollout, is waited for or has just come never gives way.

Trade-off: where more versions are always busy than there are places, each turn costs its place the time from the closed
gate to the end of the longest stream, and a wake: a second or two of short answers, minutes of long ones. Without turns
one tenant's steady use would keep another's model asleep for ever. A turn is bounded by residency, so with many more
busy versions than places the last in the line waits for several, and may be refused by its deadline.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from penstock.control.pool import why
from penstock.domain.fleet.decision import Decision
from penstock.domain.ids import VersionId, WorkerId


class Stay(StrEnum):
    """How a worker stands to the memory."""

    AWAY = "away"
    """It sleeps and holds nothing."""
    COMING = "coming"
    """It starts or wakes, and holds what it needs, or will."""
    HERE = "here"
    FALLING_ASLEEP = "falling_asleep"
    """It was told to sleep and still holds its memory."""
    LEAVING = "leaving"
    """It ends, and still holds its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A worker of the pool. Times are Unix seconds."""

    worker: WorkerId
    version: VersionId
    size_bytes: int
    stay: Stay
    is_busy: bool = False
    since: float = 0.0
    """When it became ready; 0 where that is not known."""
    used_at: float = 0.0
    worth: float = 0.0
    """How much it is used; 0 where it never was."""
    wake_s: float = 0.0
    """What waking it takes, by its last start; 0 where that is not known."""


_GOING = frozenset({Stay.FALLING_ASLEEP, Stay.LEAVING})
_STAYING = frozenset({Stay.COMING, Stay.HERE})


class Rank(IntEnum):
    """Whose claim comes first."""

    KEPT = 0
    WAITED_FOR = 1
    NEW = 2
    SECOND = 3
    """Another worker of a version that serves: it takes what is free, and nobody's place."""


_SPARED = frozenset({Rank.KEPT, Rank.WAITED_FOR})
"""Whose version is needed now, all of its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceClaim:
    """A worker that wants a place: one that sleeps (``worker``), or one that is to be started (None)."""

    version: VersionId
    size_bytes: int
    rank: Rank
    signal: str
    value: str
    """Why, in words."""
    worker: WorkerId | None = None
    since: float = math.inf
    """Its place among claims of its rank; of who is waited for, since when."""
    held_since: float = math.inf
    """Since when requests are held for it, whatever its rank."""
    holds_bytes: int = 0
    """What a worker still holds that was told to sleep: to take that back costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """How large the pool is, and how patient. ``limit_bytes`` 0: there is none.

    A resident stays for ``residency_s`` at least, and for ``residency_wakes`` times what waking it took: so most of its
    time is service. Whoever waits for a place longer than ``patience_s`` is passed no more, and longer than ``turn_s``
    has the place of a busy one: well below the 60 s for which gateways hold a request.
    """

    limit_bytes: int = 0
    lease_s: float = 5.0
    """An older heartbeat says nothing about its worker."""
    residency_s: float = 5.0
    residency_wakes: float = 2.0
    patience_s: float = 5.0
    turn_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What to do: versions to start a worker of, workers to wake and to put to sleep, and why."""

    start: tuple[VersionId, ...] = ()
    wake: tuple[WorkerId, ...] = ()
    sleep: tuple[WorkerId, ...] = ()
    why: tuple[Decision, ...] = ()


@dataclass(slots=True)
class _Room:
    """What is left while claims are served, one after the other."""

    policy: PoolPolicy
    free: int
    """Bytes that nobody holds."""
    leaving: int
    """Bytes that residents hold who go."""
    most: int
    """What a claim can have at all: the rest is held by who never sleeps."""
    idle: dict[WorkerId, Resident]
    """Who may be put to sleep."""
    busy: dict[WorkerId, Resident]
    """Who may be told to for a turn alone."""
    start: list[VersionId] = field(default_factory=list)
    wake: list[WorkerId] = field(default_factory=list)
    sleep: list[WorkerId] = field(default_factory=list)
    why: list[Decision] = field(default_factory=list)
    is_awaited: bool = False
    """Whether a claim waits for who goes."""

    def serve(self, claim: PlaceClaim, now: float) -> None:
        """Give it its place, see to it that it gets one, or let it wait."""
        if claim.holds_bytes:
            if not self.is_awaited:
                self.leaving -= claim.holds_bytes
                self._place(claim, 0)
        elif claim.size_bytes <= self.free:
            self._place(claim, claim.size_bytes)
        elif claim.rank is not Rank.SECOND:
            self._gather(claim, now)

    def shrink(self, over: int) -> None:
        """Put idle residents to sleep that the pool has no bytes for, as far as there are any: it was larger once."""
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
        """Put residents to sleep for it, unless who goes already is enough; keep what is there for it."""
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
        """Return who gives way though it may be busy: as few of the busy as can be; None where nobody does."""
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
    """Return whom to wake, to start and to put to sleep now. Of ``kept`` versions nobody is put to sleep."""
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
    """Tell whether it is idle and was here long enough; who was only proven, and never used, has no residency."""
    return not resident.is_busy and (not resident.worth or _was_here(resident, now, policy))


def _was_here(resident: Resident, now: float, policy: PoolPolicy) -> bool:
    """Tell whether it has had its residency."""
    return now - resident.since >= max(policy.residency_s, policy.residency_wakes * resident.wake_s)


def _victims(idle: Iterable[Resident], short: int) -> list[Resident] | None:
    """Return whose sleep frees so many bytes at the least loss of use; None where all of them are not enough.

    This is knapsack cover: greedy by use for each byte, the needless dropped again, or the one resident that is enough,
    whichever loses less; never more than twice the least (Csirik et al., Acta Cybernetica 10, 1991). Of one size and
    one use each it is the least recently used.
    """
    found: list[Resident] = []
    freed = 0
    ordered = sorted(idle, key=lambda one: (one.worth / max(1, one.size_bytes), one.used_at, one.worker))
    for resident in ordered:
        if freed >= short:
            break
        found.append(resident)
        freed += resident.size_bytes
    if freed < short:
        return None
    for resident in sorted(found, key=lambda one: (one.worth, one.used_at, one.worker), reverse=True):
        if freed - resident.size_bytes >= short:
            found.remove(resident)
            freed -= resident.size_bytes
    alone = min((one for one in ordered if one.size_bytes >= short > 0), key=lambda one: one.worth, default=None)
    if alone is not None and alone.worth <= sum(one.worth for one in found):
        return [alone]
    return found
