"""A machine with fewer slots than versions, in virtual time: callers, wakes, and the real pool that decides.

All policies see the same rules and the same arrivals; they differ in the value of a resident's use.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from penstock.capacity import uses
from penstock.control.pool.packing import Packed, PlaceClaim, PoolPolicy, Rank, Resident, Stay, pack
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.report import Load

STEP_S = 0.25
"""Between two heartbeats, each of which is followed by a tick."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """Arrivals: ``sessions`` begin at random, each of ``requests`` requests in a row on average."""

    versions: int = 30
    zipf: float = 1.0
    sessions_per_s: float = 0.1
    requests: float = 1.0
    think_s: float = 8.0
    serve_s: float = 1.5


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, and how long its answer takes once it runs."""

    at: float
    version: int
    serve_s: float


def arrivals(use: Use, seconds: float, chance: random.Random) -> list[Asked]:
    weights = [1.0 / (rank + 1) ** use.zipf for rank in range(use.versions)]
    found: list[Asked] = []
    began = 0.0
    while (began := began + chance.expovariate(use.sessions_per_s)) < seconds:
        version = chance.choices(range(use.versions), weights)[0]
        at = began
        while True:
            found.append(Asked(at=at, version=version, serve_s=chance.expovariate(1.0 / use.serve_s)))
            if chance.random() < 1.0 / use.requests:
                break
            at += chance.expovariate(1.0 / use.think_s)
    return sorted((one for one in found if one.at < seconds), key=lambda one: one.at)


@dataclass(kw_only=True)
class Sleeper:
    version: int
    size_bytes: int
    stay: Stay = Stay.AWAY
    until: float = 0.0
    """When it is awake, or has given its memory back."""
    since: float = 0.0
    runs: list[float] = field(default_factory=list)
    """When each of its running requests ends."""
    held: list[Asked] = field(default_factory=list)
    seen: Seen | None = None
    next_use: float = 0.0
    name: WorkerId = field(init=False)

    def __post_init__(self) -> None:
        self.name = WorkerId(f"w{self.version:02}")


Worth = Callable[[Sleeper, float], float]
"""What a resident's place is worth to whoever decides, at a time."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    hits: int
    asked: int
    swaps: int
    waits_s: dict[int, list[float]]
    unserved: int
    busy_slept: int
    overfull: int

    @property
    def hit_ratio(self) -> float:
        return self.hits / self.asked

    def wait_s(self, quantile: float, versions: Sequence[int] | None = None) -> float:
        """Return a quantile of the requests' waits, of all or of some versions."""
        chosen = self.waits_s if versions is None else versions
        waits = sorted(wait_s for version in chosen for wait_s in self.waits_s[version])
        return waits[min(len(waits) - 1, int(quantile * len(waits)))] if waits else 0.0


@cache
def _report(name: WorkerId, stay: Stay, running: int) -> WorkerReport:
    states = {Stay.HERE: WorkerState.READY, Stay.COMING: WorkerState.WAKING}
    state = states.get(stay, WorkerState.SLEEPING)
    return WorkerReport(worker=name, version=VersionId(name), state=state, url="", load=Load(running=running))


class World:
    def __init__(
        self, asked: Sequence[Asked], sizes: Sequence[int], policy: PoolPolicy, worth: Worth, *, wake_s: float = 2.5
    ) -> None:
        """Put all versions to sleep; nothing is asked yet."""
        self._asked, self._policy, self._worth, self._wake_s = list(asked), policy, worth, wake_s
        self.sleepers = [Sleeper(version=number, size_bytes=size) for number, size in enumerate(sizes)]
        self._by_name = {one.name: one for one in self.sleepers}
        self._awake: list[Sleeper] = []
        self._coming: list[list[float]] = [[] for _ in sizes]
        for one in reversed(self._asked):
            self._coming[one.version].append(one.at)
        for sleeper in self.sleepers:
            self._look_ahead(sleeper)
        self._hits = self._swaps = self._busy_slept = self._overfull = 0
        self._waits: dict[int, list[float]] = {number: [] for number in range(len(sizes))}

    def run(self) -> Outcome:
        now, waiting = 0.0, list(reversed(self._asked))
        end = self._asked[-1].at + 120.0
        while now < end:
            while waiting and waiting[-1].at <= now:
                self._ask(waiting.pop())
            self._awake = [one for one in self._awake if self._live(one, now)]
            self._obey(self._decide(now), now)
            now += STEP_S
        return Outcome(
            hits=self._hits,
            asked=len(self._asked),
            swaps=self._swaps,
            waits_s=self._waits,
            unserved=sum(len(one.held) for one in self.sleepers),
            busy_slept=self._busy_slept,
            overfull=self._overfull,
        )

    def _ask(self, asked: Asked) -> None:
        one = self.sleepers[asked.version]
        self._coming[asked.version].pop()
        self._look_ahead(one)
        if one.stay is Stay.HERE:
            self._hits += 1
            self._waits[asked.version].append(0.0)
            one.runs.append(asked.at + asked.serve_s)
        else:
            one.held.append(asked)

    def _look_ahead(self, one: Sleeper) -> None:
        coming = self._coming[one.version]
        one.next_use = coming[-1] if coming else float("inf")

    def _live(self, one: Sleeper, now: float) -> bool:
        """Return whether it is still awake, or was by the report before."""
        one.runs = [end for end in one.runs if end > now]
        if one.stay is Stay.COMING and now >= one.until:
            one.stay, one.since = Stay.HERE, now
            for asked in one.held:
                self._waits[one.version].append(now - asked.at)
                one.runs.append(now + asked.serve_s)
            one.held = []
        if one.stay is Stay.FALLING_ASLEEP and not one.runs and now >= one.until:
            one.stay = Stay.AWAY
        one.seen = uses.follow(one.seen, _report(one.name, one.stay, len(one.runs)), now)
        return one.stay is not Stay.AWAY

    def _decide(self, now: float) -> Packed:
        claims = [
            PlaceClaim(
                version=VersionId(one.name),
                size_bytes=one.size_bytes,
                rank=Rank.WAITED_FOR,
                signal="requests_held",
                value="",
                worker=one.name,
                since=one.held[0].at,
                held_since=one.held[0].at,
                holds_bytes=one.size_bytes if one.stay is Stay.FALLING_ASLEEP else 0,
            )
            for one in self.sleepers
            if one.held and one.stay in {Stay.AWAY, Stay.FALLING_ASLEEP}
        ]
        if not claims:
            return Packed()
        residents = [
            Resident(
                worker=one.name,
                version=VersionId(one.name),
                size_bytes=one.size_bytes,
                stay=one.stay,
                is_busy=bool(one.runs),
                since=one.since,
                used_at=one.seen.used_at if one.seen else 0.0,
                uses_per_s=self._worth(one, now),
                wake_s=self._wake_s,
            )
            for one in self.sleepers
            if one.stay is not Stay.AWAY
        ]
        return pack(residents, claims, (), now, self._policy)

    def _obey(self, done: Packed, now: float) -> None:
        for name in done.sleep:
            one = self._by_name[name]
            self._busy_slept += bool(one.runs)
            self._swaps += 1
            one.stay, one.until = Stay.FALLING_ASLEEP, now + STEP_S
        for name in done.wake:
            one = self._by_name[name]
            if one.stay is Stay.AWAY:
                self._awake.append(one)
            one.stay, one.until = Stay.COMING, now + self._wake_s
        held = sum(one.size_bytes for one in self.sleepers if one.stay is not Stay.AWAY)
        self._overfull += held > self._policy.limit_bytes


def known(one: Sleeper, _: float) -> float:
    """Value by each version's true popularity, without the times of use."""
    return 1.0 / (1.0 + one.version)


def ours(one: Sleeper, now: float) -> float:
    return uses.uses_per_s(one.seen, now) if one.seen else 0.0


def lru(one: Sleeper, now: float) -> float:
    """The least recently used one is worth least."""
    return 1.0 / (1.0 + now - (one.seen.used_at if one.seen else 0.0))


def at_random(chance: random.Random) -> Worth:
    return lambda *_: 0.001 + chance.random()


def clairvoyant(one: Sleeper, now: float) -> float:
    """Belady (IBM Systems Journal 5(2), 1966): the furthest next use is worth least."""
    return 1.0 / (1.0 + one.next_use - now) if one.next_use < float("inf") else 1e-9


def without_residency(policy: PoolPolicy) -> PoolPolicy:
    """Return the same pool, free to put any idle version to sleep at once."""
    return replace(policy, residency_s=0.0, residency_wakes=0.0)
