"""The recent copies to one candidate, compared with its caps. Pure."""

from penstock.domain.ids import TenantId
from penstock.domain.serving.shadow import ShadowCaps

LATELY_S = 5.0
"""Seconds after a request for which a tenant may have the next turn."""
AWHILE_S = 300.0
"""Seconds after a request for which a tenant is waited for: of the others the one with the oldest turn goes first."""
MOST_TENANTS = 1_000


AT_ONCE = 4
"""Concurrent comparisons of one rule in one gateway."""
TOKENS_PER_S = 5_000.0
"""Tokens a second of their prompts and answers."""
OVERDRAWN = 1.0


class Level:
    """Capacity: one second's rate; it may be overdrawn once."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left, self._at = 1.0, float("-inf")

    def has(self, per_s: float, now: float, owed: float = 0.0) -> bool:
        """Something is left, or less than ``owed`` is overdrawn."""
        if not per_s:
            return False
        self._left = min(max(1.0, per_s), self._left + (now - self._at) * per_s)
        self._at = now
        return self._left > -owed

    def spend(self, amount: float) -> None:
        self._left -= amount


class TenantTurns:
    """Among tenants with requests lately, the one with the oldest turn is next."""

    __slots__ = ("_came_at", "_had_at")

    def __init__(self) -> None:
        self._came_at: dict[TenantId, float] = {}
        self._had_at: dict[TenantId, float] = {}

    def came(self, tenant: TenantId, now: float) -> None:
        if len(self._came_at) >= MOST_TENANTS:
            self._came_at = {one: at for one, at in self._came_at.items() if now - at < LATELY_S}
            self._had_at = {one: at for one, at in self._had_at.items() if one in self._came_at or now - at < LATELY_S}
        if tenant in self._came_at or len(self._came_at) < MOST_TENANTS:
            self._came_at[tenant] = now

    def is_theirs(self, tenant: TenantId, now: float) -> bool:
        had_at = self._had_at.get(tenant, float("-inf"))
        lately = [one for one, at in self._came_at.items() if now - at < LATELY_S]
        return all(had_at <= self._had_at.get(one, float("-inf")) for one in lately)

    def is_longest_ago(self, tenant: TenantId, now: float) -> bool:
        """True if all other tenants of the last minutes had a later turn."""
        had_at = self._had_at.get(tenant, float("-inf"))
        others = [one for one, at in self._came_at.items() if one != tenant and now - at < AWHILE_S]
        return bool(others) and all(had_at < self._had_at.get(one, float("-inf")) for one in others)

    def record_turn(self, tenant: TenantId, now: float) -> None:
        self._had_at[tenant] = now


class Taken:
    __slots__ = ("_copies", "_scores", "_tokens", "_turns", "at_once", "coming")

    def __init__(self) -> None:
        self._copies, self._tokens, self._scores, self._turns = Level(), Level(), Level(), TenantTurns()
        self.at_once = 0
        self.coming = 0
        """Those of them that wait for their moment."""

    def came(self, tenant: TenantId, now: float) -> None:
        self._turns.came(tenant, now)

    def has_room(self, caps: ShadowCaps, now: float) -> bool:
        free = self.at_once < caps.at_once
        return free and self._copies.has(caps.per_s, now) and self._tokens.has(caps.tokens_per_s, now)

    def sent(self, tokens: int) -> None:
        self.at_once += 1
        self.coming += 1
        self._copies.spend(1.0)
        self._tokens.spend(tokens)

    def may_score(self, caps: ShadowCaps, tenant: TenantId, now: float) -> bool:
        return self._scores.has(caps.scored_per_s, now) and self._turns.is_theirs(tenant, now)

    def scored(self, tenant: TenantId, now: float) -> None:
        self._scores.spend(1.0)
        self._turns.record_turn(tenant, now)


class ComparisonCaps:
    """Bounds comparisons: a rate, few at once, one per tenant at a time.

    Tenants take turns: the one with the oldest turn may overdraw the rate by one.
    """

    __slots__ = ("_level", "_running", "_tokens", "_turns")

    def __init__(self) -> None:
        self._level, self._tokens, self._turns = Level(), Level(), TenantTurns()
        self._running: set[TenantId] = set()

    def may_go(self, per_s: float, tenant: TenantId, now: float) -> bool:
        if tenant in self._running:
            return False  # and takes nobody's turn meanwhile
        self._turns.came(tenant, now)
        if len(self._running) >= AT_ONCE or not self._tokens.has(TOKENS_PER_S, now):
            return False
        if self._turns.is_longest_ago(tenant, now):
            return self._level.has(per_s, now, OVERDRAWN)
        return self._turns.is_theirs(tenant, now) and self._level.has(per_s, now)

    def passed(self, tenant: TenantId, now: float) -> None:
        """The tenant can't use its turn: the next is another's, and nothing is spent."""
        self._turns.record_turn(tenant, now)

    def goes(self, tenant: TenantId, tokens: int, now: float) -> None:
        self._level.spend(1.0)
        self._tokens.spend(tokens)
        self._turns.record_turn(tenant, now)
        self._running.add(tenant)

    def ended(self, tenant: TenantId) -> None:
        self._running.discard(tenant)
