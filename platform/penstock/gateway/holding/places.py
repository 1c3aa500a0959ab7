"""Who may wait for a version that sleeps, who gives way, and in which order they go on. Pure.

One tenant has at most its part of the places. Where they are all taken, whoever comes takes the newest place of the
tenant that has most of them for its weight, if that is more than its own; a lower standing gives way first, and none to
one below it. They go on by standing, and within one in the order of fair queueing (SFQ, Goyal et al. 1996) by
tokens over weight: a tenant that filled the places does not go before the one request of another.

Trade-off: who gave way was first here and goes with an error, so that one tenant's rush is not everybody's.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.fairness.turns import VirtualTimes
from penstock.gateway.holding.hold_settings import HoldSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRequest:
    """One request that waits; ``who`` tells it from others."""

    who: Hashable
    tenant: TenantId
    weight: int
    standing: Standing
    tokens: int


@dataclass(slots=True)
class _Holds:
    """What one tenant has here."""

    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Places:
    """Those of one version."""

    settings: HoldSettings
    _tags: dict[HeldRequest, float] = field(default_factory=dict)
    """In the order in which they came."""
    _holds: dict[TenantId, _Holds] = field(default_factory=dict)
    _tokens: int = 0
    _times: VirtualTimes[TenantId] = field(default_factory=VirtualTimes)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._tags)

    @property
    def tokens(self) -> int:
        """How many tokens they all are."""
        return self._tokens

    def all(self) -> list[HeldRequest]:
        """Return those that wait, in the order in which they came."""
        return list(self._tags)

    def enter(self, entry: HeldRequest) -> tuple[HeldRequest, ...] | None:
        """Take a place; return those that gave way for it, None where nobody does."""
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
        """Free its place; False where it has none."""
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
        """Return who goes on first, without a place any more; None where nobody waits."""
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
        """Return whose place it may have: of the lowest standing, and in that of who has most."""
        below = [one for one in self._tags if one.standing <= entry.standing and one.tenant != entry.tenant]
        if not below:
            return None
        victim = max(enumerate(below), key=lambda at: (-at[1].standing, self._part(at[1]), at[0]))[1]
        is_fair = victim.standing < entry.standing or self._part(victim) > self._part(entry, more=1)
        return victim if is_fair else None

    def _part(self, entry: HeldRequest, *, more: int = 0) -> float:
        """Return how many places its tenant has for its weight, with so many more."""
        holds = self._holds.get(entry.tenant) or _Holds()
        return (holds.requests + more) / entry.weight
