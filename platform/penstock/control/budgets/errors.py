"""Error budgets for rollouts: availability by the ledger, other objectives by a Prometheus.

Failures that gateways report as caused by callers are not counted; all others are bad, so that the remaining budget is
rather underestimated. If Prometheus is unavailable, its last answer holds for an hour, so that a rollout frozen by it
stays frozen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.tenancy.ledger import Ended, LedgerReader
from penstock.lateness.awake import timeout
from penstock.slo import policy
from penstock.slo.budget import Budget
from penstock.slo.budgets import Promised, availability
from penstock.slo.policy import BudgetVerdict, Policy, RolloutPace
from penstock.slo.windows import DAY_S
from penstock.telemetry.logs import logger

REREAD_S = 30.0
"""Seconds between reads: an hour's sums change a period's budget slowly."""
PATIENCE_S = 2.0
"""Seconds that a tick waits for Prometheus."""
KEPT_S = 3600.0


@dataclass(slots=True, kw_only=True)
class RecordedBudgets:
    """Read periodically, in a thread; without a Prometheus there are none."""

    read: Callable[[], tuple[Budget, ...]]
    clock: Clock
    _asked_at: float = float("-inf")
    _told_at: float = float("-inf")
    _told: tuple[Budget, ...] = ()

    async def of(self, tier: Tier) -> tuple[Budget, ...]:
        """Return no budgets after an hour without an answer."""
        now = self.clock.monotonic()
        if now - self._asked_at >= REREAD_S:
            self._asked_at = now
            await self._ask(now)
        if now - self._told_at > KEPT_S:
            self._told = ()
        return tuple(one for one in self._told if one.tier == tier.value)

    async def _ask(self, now: float) -> None:
        try:
            async with timeout(PATIENCE_S):
                self._told, self._told_at = await asyncio.to_thread(self.read), now
        except (CommandError, TimeoutError) as error:
            logger().warning("budgets_not_read", reason=str(error) or type(error).__name__)


async def _unrecorded(_: Tier) -> tuple[Budget, ...]:
    return ()


@dataclass(slots=True, kw_only=True)
class LedgerBudgets:
    """Without the ledger there is no data, and the rollout's policy decides."""

    ledger: LedgerReader
    clock: Clock
    promised: Promised
    policy: Policy
    recorded: Callable[[Tier], Awaitable[tuple[Budget, ...]]] = _unrecorded
    """Return a tier's budgets from a Prometheus; the worst of all decides."""
    _read_at: float | None = None
    _ended: dict[Tier, tuple[Ended, ...]] = field(default_factory=dict)

    async def is_spent(self, tier: Tier, versions: Mapping[VersionId, Tier]) -> bool:
        return (await self.verdict(tier, versions)).pace is RolloutPace.FROZEN

    async def verdict(self, tier: Tier, versions: Mapping[VersionId, Tier]) -> BudgetVerdict:
        recorded = await self.recorded(tier)
        now, promise = self.clock.monotonic(), self.promised.tiers[tier]
        if self._read_at is None or now - self._read_at >= REREAD_S:
            self._read_at, self._ended = now, {}
        if tier not in self._ended:
            try:
                self._ended[tier] = await self.ledger.ended(self.clock.now() - promise.window_days * DAY_S)
            except StoreUnavailable:
                return policy.judge(self.policy, recorded)
        own = (one for one in self._ended[tier] if versions.get(one.version) is tier)
        return policy.judge(self.policy, (*availability(promise, own, self.promised), *recorded))
