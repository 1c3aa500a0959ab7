"""An engine's adapters in memory, the requested ones, and the next to evict. Pure.

One is loaded at a time, a bounded number per minute, tenants with the fewest recent loads first: a tenant with a
thousand adapters delays others by one load.

Trade-off: with more adapters in use than fit, most requests are refused until the next minute's loads.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.outage import SHORTEST_WAIT_S
from penstock.fairness.fading import Fading
from penstock.worker.gate.queueing.constants import (
    BOUND_S,
    LEARNING,
    LOADS_PER_MINUTE,
    MINUTE_S,
    MOST_KNOWN,
)


class Uses:
    def __init__(self) -> None:
        self._uses: OrderedDict[VersionId, Fading] = OrderedDict()

    def use(self, adapter: VersionId, now: float) -> None:
        self._uses[adapter] = self._uses.get(adapter, Fading()).plus(1.0, now, MINUTE_S)
        self._uses.move_to_end(adapter)
        if len(self._uses) > MOST_KNOWN:
            self._uses.popitem(last=False)

    def least(self, adapters: Iterable[VersionId], now: float) -> VersionId | None:
        return min(adapters, key=lambda one: self._uses.get(one, Fading()).now(now, MINUTE_S), default=None)


@dataclass(slots=True)
class _Waiting:
    since: float
    tenants: Counter[TenantId] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class AdapterRefusal:
    why: str
    until: float


@dataclass(frozen=True, slots=True)
class _Pause:
    of_s: float
    until: float


class Residents:
    def __init__(self, most: int, uses: Uses | None = None) -> None:
        self.most, self.uses = most, uses or Uses()
        self.load_s = BOUND_S
        self._has_seen_a_load = False
        self.loading: VersionId | None = None
        self.pinned: frozenset[VersionId] = frozenset()
        """Whom nobody replaces, and who is loaded before all others, but for those that were refused."""
        self._paused: dict[VersionId, _Pause] = {}
        self._at: dict[VersionId, float] = {}
        self._checked: dict[VersionId, float] = {}
        """Since when each is found right."""
        self._began = 0.0
        self._waiting: dict[VersionId, _Waiting] = {}
        self._wishes: dict[VersionId, tuple[TenantId, float]] = {}
        self._refused: dict[VersionId, AdapterRefusal] = {}
        self._loads: deque[tuple[float, frozenset[TenantId]]] = deque()

    def __len__(self) -> int:
        return len(self._at)

    @property
    def names(self) -> tuple[VersionId, ...]:
        return tuple(one for one in self._at if one in self._checked)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def load_took_s(self, now: float) -> float:
        return now - self._began

    def has(self, adapter: VersionId) -> bool:
        return adapter in self._checked

    def holds(self, adapter: VersionId) -> bool:
        return adapter in self._at

    # -- who waits ---------------------------------------------------------------------------

    def wish(self, adapter: VersionId, tenant: TenantId, now: float) -> None:
        if adapter not in self._at and (adapter in self._wishes or len(self._wishes) < MOST_KNOWN):
            self._wishes[adapter] = tenant, now

    def came(self, adapter: VersionId, tenant: TenantId, now: float) -> None:
        waiting = self._waiting.get(adapter)
        if waiting is None:
            waiting = self._waiting[adapter] = _Waiting(now)
        waiting.tenants[tenant] += 1

    def gone(self, adapter: VersionId, tenant: TenantId) -> bool:
        """Tell whether it was the last request that waits for the adapter."""
        waiting = self._waiting[adapter]
        waiting.tenants[tenant] -= 1
        if not waiting.tenants[tenant]:
            del waiting.tenants[tenant]
        if waiting.tenants:
            return False
        del self._waiting[adapter]
        return True

    def waits(self, adapter: VersionId) -> bool:
        return adapter in self._waiting

    def waits_since(self, adapter: VersionId) -> float | None:
        waiting = self._waiting.get(adapter)
        return waiting.since if waiting is not None else None

    def waits_from(self, adapter: VersionId, now: float) -> None:
        """One of the adapter's requests was just served."""
        waiting = self._waiting.get(adapter)
        if waiting is not None:
            waiting.since = now

    # -- what is loaded ----------------------------------------------------------------------

    def wanted(self, now: float) -> VersionId | None:
        self._forget(now)
        if self.loading is not None or len(self._loads) >= LOADS_PER_MINUTE:
            return None
        pins = [one for one in sorted(self.pinned) if one not in self._paused or self._paused[one].until <= now]
        asked = dict.fromkeys((*pins, *self._waiting, *self._wishes))
        coming = [one for one in asked if one not in self._at and not self.refusal(one, now)]
        had = Counter(tenant for _, tenants in self._loads for tenant in tenants)
        return min(coming, key=lambda one: self._turn(one, had, now), default=None)

    def look_at(self, now: float) -> float | None:
        """Return when ``wanted`` may change by time alone; None if only an event can change it."""
        self._forget(now)
        if len(self._loads) >= LOADS_PER_MINUTE:
            return self._loads[0][0] + MINUTE_S
        return min((pause.until for pause in self._paused.values() if pause.until > now), default=None)

    def begin(self, adapter: VersionId, now: float) -> None:
        waiting = self._waiting.get(adapter)
        self.loading, self._began = adapter, now
        wish = self._wishes.pop(adapter, None)
        tenants = waiting.tenants if waiting is not None else (wish[0],) if wish is not None else ()
        self._loads.append((now, frozenset(tenants)))

    def gives_way(self, busy: frozenset[VersionId], now: float) -> VersionId | None:
        """The least used, first those without waiting requests; ``busy`` are in the batch. None if there is room, or if
        none may leave now (``is_full``).
        """
        if not self.is_full:
            return None
        free = [one for one in self._at if one not in busy and one not in self.pinned]
        idle = [one for one in free if one not in self._waiting]
        old = [one for one in free if now - self._at[one] >= BOUND_S]
        return self.uses.least(idle or old, now)

    @property
    def is_full(self) -> bool:
        return len(self._at) >= self.most

    def loaded(self, adapter: VersionId, now: float) -> None:
        self._at[adapter] = now

    def ready(self, adapter: VersionId, now: float) -> None:
        if adapter not in self._at:
            return
        self._checked.setdefault(adapter, now)
        self._refused.pop(adapter, None)
        self._paused.pop(adapter, None)
        if self.loading == adapter:
            weight = LEARNING if self._has_seen_a_load else 1.0
            self.load_s += weight * (now - self._began - self.load_s)
            self._has_seen_a_load = True
            self.loading = None

    def refuse(self, adapter: VersionId, why: str, now: float, for_s: float) -> None:
        """Refuse the adapter for ``for_s``; a pin is retried at growing intervals."""
        if len(self._refused) >= MOST_KNOWN:
            del self._refused[next(iter(self._refused))]
        self._refused[adapter] = AdapterRefusal(why, now + for_s)
        if adapter in self.pinned:
            before = self._paused.get(adapter)
            of_s = min(MINUTE_S, 2 * before.of_s) if before is not None else BOUND_S
            self._paused[adapter] = _Pause(of_s, now + max(of_s, for_s))
        self.loading = None if self.loading == adapter else self.loading

    def gave_up(self, adapter: VersionId) -> None:
        """Abandoned without its fault: it may be requested again at once."""
        self.loading = None if self.loading == adapter else self.loading

    def dropped(self, adapter: VersionId) -> None:
        self._at.pop(adapter, None)
        self._checked.pop(adapter, None)

    def refusal(self, adapter: VersionId, now: float) -> AdapterRefusal | None:
        """Return reason and duration; None if the adapter may be served."""
        refused = self._refused.get(adapter)
        if refused is not None and refused.until <= now:
            del self._refused[adapter]
            return None
        return refused

    def held_s(self, adapter: VersionId, since: float, now: float) -> float:
        """Seconds from ``since`` until the adapter was ready: the part of a wait that is no queueing."""
        return max(0.0, self._checked.get(adapter, now) - since)

    def wait_s(self, adapter: VersionId, now: float) -> float:
        since = self.waits_since(adapter)
        before = sum(
            one not in self._at and (since is None or waiting.since < since) for one, waiting in self._waiting.items()
        )
        left_s = max(SHORTEST_WAIT_S, self._began + self.load_s - now) if self.loading is not None else 0.0
        if self.loading == adapter:
            return left_s
        if self.loading in self._waiting:
            before -= 1
        over = len(self._loads) + before + 1 - LOADS_PER_MINUTE
        pause_s = max(0.0, self._loads[0][0] + MINUTE_S - now) if over > 0 and self._loads else 0.0
        return left_s + max(pause_s, (max(0, before) + 1) * self.load_s)

    def _turn(self, adapter: VersionId, had: Counter[TenantId], now: float) -> tuple[int, int, float]:
        pause = self._paused.get(adapter)
        if adapter in self.pinned and (pause is None or pause.until + MINUTE_S <= now):
            return 0, 0, 0.0
        waiting = self._waiting.get(adapter)
        if waiting is None and adapter in self._wishes:
            tenant, since = self._wishes[adapter]
            return 1, had[tenant], since
        if waiting is None:
            return 2, 0, pause.until if pause is not None else 0.0
        return 1, min(had[tenant] for tenant in waiting.tenants), waiting.since

    def _forget(self, now: float) -> None:
        while self._loads and self._loads[0][0] <= now - MINUTE_S:
            self._loads.popleft()
        for adapter in [one for one, (_, at) in self._wishes.items() if at <= now - MINUTE_S]:
            del self._wishes[adapter]
        for adapter in self._paused.keys() - self.pinned:
            del self._paused[adapter]
