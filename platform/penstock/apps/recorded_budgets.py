"""Error budgets as the platform's Prometheus records them, for the controller: latency counts for rollouts, too.

It is read now and then, in a thread. While it is away its last word stays for an hour: else a frozen rollout would go
on because the one that froze it can't be asked.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from penstock.apps import error_budgets
from penstock.apps.ledger_budgets import REREAD_S
from penstock.connectors.prometheus.client import Prometheus
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.slo.budget import Budget
from penstock.telemetry.logs import logger

PATIENCE_S = 2.0
"""A tick waits no longer for it."""
KEPT_S = 3600.0


@dataclass(slots=True, kw_only=True)
class RecordedBudgets:
    """Fits ``LedgerBudgets.recorded``."""

    find: Callable[[], Prometheus | None]
    """Where it is now; None where the platform has none."""
    clock: Clock
    _asked_at: float = float("-inf")
    _told_at: float = float("-inf")
    _told: tuple[Budget, ...] = ()

    async def of(self, tier: Tier) -> tuple[Budget, ...]:
        """Return what is known of a tier's budgets; nothing where there is no Prometheus, or none that tells."""
        now = self.clock.monotonic()
        if now - self._asked_at >= REREAD_S:
            self._asked_at = now
            await self._ask(now)
        if now - self._told_at > KEPT_S:
            self._told = ()
        return tuple(one for one in self._told if one.tier == tier.value)

    async def _ask(self, now: float) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._told, self._told_at = await asyncio.to_thread(self._read), now
        except (CommandError, TimeoutError) as error:
            logger().warning("budgets_not_read", reason=str(error) or type(error).__name__)

    def _read(self) -> tuple[Budget, ...]:
        found = self.find()
        return error_budgets.of_prometheus(found).budgets if found is not None else ()
