"""What the error budgets allow rollouts: availability by the ledger, and what a Prometheus records where there is one.

The controller has the ledger wherever it runs. That knows how requests ended, and nothing of times. What gateways
have told it to be the caller's own doing is in no count, as it is in none of their metrics; what they had no time to
tell is counted as bad, so that the budget is rather told too small than too large.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.apps import rule_files, slos
from penstock.apps.error_budgets import known_policy
from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator, SloTier
from penstock.domain.tenancy.ledger import Ended, LedgerReader
from penstock.slo import budget, policy
from penstock.slo.budget import Budget, Seen
from penstock.slo.policy import Pace, Policy, Verdict
from penstock.slo.windows import DAY_S

REREAD_S = 30.0
"""An hour's sums don't change a period's budget sooner."""


async def _unrecorded(_: Tier) -> tuple[Budget, ...]:
    return ()


@dataclass(slots=True, kw_only=True)
class LedgerBudgets:
    """The pace that each tier's budgets allow; a ledger that is away is no data, for which the policy has an answer."""

    ledger: LedgerReader
    clock: Clock
    recorded: Callable[[Tier], Awaitable[tuple[Budget, ...]]] = _unrecorded
    """What a Prometheus says of a tier's budgets; the worst of all decides."""
    tiers: Mapping[Tier, SloTier] = field(default_factory=slos.load)
    policy: Policy = field(default_factory=known_policy)
    _read_at: float | None = None
    _ended: dict[Tier, tuple[Ended, ...]] = field(default_factory=dict)

    async def is_spent(self, tier: Tier, versions: Mapping[VersionId, Tier]) -> bool:
        """Tell whether nothing new may be risked in this tier."""
        return (await self.verdict(tier, versions)).pace is Pace.FROZEN

    async def verdict(self, tier: Tier, versions: Mapping[VersionId, Tier]) -> Verdict:
        """Return what this tier's budgets allow, from the ends of its versions in the promise's own period."""
        recorded = await self.recorded(tier)
        now = self.clock.monotonic()
        if self._read_at is None or now - self._read_at >= REREAD_S:
            self._read_at, self._ended = now, {}
        if tier not in self._ended:
            try:
                self._ended[tier] = await self.ledger.ended(self.clock.now() - self.tiers[tier].window_days * DAY_S)
            except StoreUnavailable:
                return policy.judge(self.policy, recorded)
        mine = (one for one in self._ended[tier] if versions.get(one.version) is tier)
        return policy.judge(self.policy, (*availability(self.tiers[tier], mine), *recorded))


def availability(tier: SloTier, ended: Iterable[Ended]) -> tuple[Budget, ...]:
    """Return the budget of a tier's availability after these ends; none where the tier does not promise it."""
    objective = tier.objective(Indicator.AVAILABILITY)
    if objective is None:
        return ()
    counts = Counter[bool]()
    for one in ended:
        if one.outcome is Outcome.OK or one.outcome.spends_error_budget:
            counts[one.outcome is not Outcome.OK] += one.requests
    seen = Seen(bad=counts[True], events=counts.total())
    is_few = seen.is_few(objective.good_ratio, rule_files.known_windows().least_bad_events)
    ratio = seen.bad / seen.events if seen.events else None
    left = budget.left(ratio, objective.good_ratio, is_counted=True)
    return (
        Budget(
            tier=tier.tier.value,
            objective=objective.indicator.value,
            good_ratio=objective.good_ratio,
            period_days=tier.window_days,
            left_ratio=None if is_few else left,
            burns={},
            seen=seen,
            is_few=is_few,
        ),
    )
