"""Admits requests to the queue of a version, evicts some, and orders them. Pure.

In a full queue a new request evicts the newest request of the tenant with the most requests for its weight, if these
are more than the new request's tenant would have. Lower standings are evicted first, and none by a lower standing.

Trade-off: an evicted request came earlier and ends with an error; in exchange one tenant's burst can't delay all
others.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.fairness.turns import VirtualTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSettings:
    """``tenant_ratio``: one tenant's largest share; ``seconds`` bounds each wait."""

    requests: int = 256
    tokens: int = 1_000_000
    seconds: float = 60.0
    tenant_ratio: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRequest:
    who: Hashable
    tenant: TenantId
    weight: int
    standing: Standing
    tokens: int


@dataclass(slots=True)
class _Holds:
    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Places:
    settings: HoldSettings
    _tags: dict[HeldRequest, float] = field(default_factory=dict)
    """Entries in order of arrival."""
    _holds: dict[TenantId, _Holds] = field(default_factory=dict)
    _tokens: int = 0
    _times: VirtualTimes[TenantId] = field(default_factory=VirtualTimes)

    def __len__(self) -> int:
        return len(self._tags)

    @property
    def tokens(self) -> int:
        return self._tokens

    def all(self) -> list[HeldRequest]:
        return list(self._tags)

    def enter(self, entry: HeldRequest) -> tuple[HeldRequest, ...] | None:
        """Return the evicted requests; None if there is no room."""
        out: list[HeldRequest] = []
        fits = self._fits_tenant(entry)
        while fits and not self._fits(entry):
            victim = self._victim(entry)
            if victim is None:
                fits = False
            else:
                out.append(victim)
                self.remove(victim)
        if not fits:
            for victim in reversed(out):
                self._put(victim)
            return None
        self._put(entry)
        return tuple(out)

    def remove(self, entry: HeldRequest) -> bool:
        if self._tags.pop(entry, None) is None:
            return False
        holds = self._holds[entry.tenant]
        holds.requests -= 1
        holds.tokens -= entry.tokens
        self._tokens -= entry.tokens
        if not self._tags:
            self._holds.clear()
            self._times.clear()
        return True

    def next(self) -> HeldRequest | None:
        if not self._tags:
            return None
        first = min(self._tags, key=lambda entry: (-entry.standing, self._tags[entry]))
        self._times.serve(self._tags[first] - first.tokens / first.weight)
        self.remove(first)
        return first

    def _put(self, entry: HeldRequest) -> None:
        holds = self._holds.setdefault(entry.tenant, _Holds())
        holds.requests += 1
        holds.tokens += entry.tokens
        self._tokens += entry.tokens
        self._tags[entry] = self._times.resume(entry.tenant) + entry.tokens / entry.weight
        self._times.charge(entry.tenant, entry.tokens / entry.weight)

    def _fits(self, entry: HeldRequest) -> bool:
        return len(self) < self.settings.requests and self._tokens + entry.tokens <= self.settings.tokens

    def _fits_tenant(self, entry: HeldRequest) -> bool:
        ours, holds = self.settings, self._holds.get(entry.tenant) or _Holds()
        most_requests, most_tokens = ours.requests * ours.tenant_ratio, ours.tokens * ours.tenant_ratio
        return holds.requests + 1 <= max(1.0, most_requests) and holds.tokens + entry.tokens <= most_tokens

    def _victim(self, entry: HeldRequest) -> HeldRequest | None:
        """Choose by lowest standing, then by the tenant with most requests."""
        below = [one for one in self._tags if one.standing <= entry.standing and one.tenant != entry.tenant]
        if not below:
            return None
        victim = max(enumerate(below), key=lambda at: (-at[1].standing, self._part(at[1]), at[0]))[1]
        is_fair = victim.standing < entry.standing or self._part(victim) > self._part(entry, more=1)
        return victim if is_fair else None

    def _part(self, entry: HeldRequest, *, more: int = 0) -> float:
        holds = self._holds.get(entry.tenant) or _Holds()
        return (holds.requests + more) / entry.weight
