"""A periodic check of all budgets: an alarm per threshold, gauges of use, shared counters.

Shared counters are only raised, which adds the spend that a killed gateway never settled.

Trade-off: an alarm is raised once per scope, window, cap and threshold; a changed cap makes a new budget.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.budget import BudgetLine
from penstock.domain.tenancy.ledger import LedgerReader
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import KeyRing
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetComparison:
    """A meter beside the ledger (B6). Under load, meters include settlements without ledger rows yet."""

    line: BudgetLine
    counted: MicroUsd

    @property
    def difference(self) -> int:
        return self.counted - self.line.spent


async def compare(reader: LedgerReader, store: SpentStore, ring: KeyRing, now: float) -> tuple[BudgetComparison, ...]:
    lines = await budget.read(reader, ring, now)
    counted = await store.spent([line.budget.meter for line in lines])
    return tuple(BudgetComparison(line=line, counted=MicroUsd(counted[line.budget.meter])) for line in lines)


async def correct(compared: tuple[BudgetComparison, ...], store: SpentStore) -> int:
    """Set the meters to the ledger's sums on a platform at rest; return the number of differing ones."""
    wrong = {one.line.budget.meter: int(one.line.spent) for one in compared if one.difference}
    await store.put_spent(wrong)
    return len(wrong)


PERCENTS = (50, 80, 95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    line: BudgetLine
    percent: int

    @property
    def name(self) -> str:
        """The alarm's identity: an alarm with the same name is not raised again."""
        return f"{self.line.budget.meter}/{self.line.budget.cap}@{self.percent}"


def crossed(lines: Iterable[BudgetLine]) -> Iterator[Crossing]:
    for line in lines:
        for percent in PERCENTS:
            if line.spent * 100 >= line.budget.cap * percent:
                yield Crossing(line=line, percent=percent)


EVERY_S = 15.0
MOST_SHOWN = 50
"""Budgets with a gauge of their own, the fullest first; all others share one."""
OTHER = "other"


class ThresholdLog(Protocol):
    async def note_threshold(self, act: Act) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWatch:
    """``shared`` is the limits store of all gateways, if there is one."""

    clock: Clock
    ledger: LedgerReader
    ring: Callable[[], Awaitable[KeyRing]]
    log: ThresholdLog
    metrics: Metrics
    shared: SpentStore | None
    acts: Callable[[], bool]
    """Whether this controller leads: only the leader raises alarms."""
    label: Callable[[str], str] = str
    """A scope's label in metrics."""
    raised: set[str] = field(default_factory=set)
    """Alarms known to have been raised, so that the log is not queried again."""

    async def run(self, every_s: float = EVERY_S) -> None:
        while True:
            if self.acts():
                try:
                    await self.look()
                except PenstockError as error:
                    logger().warning("budgets_not_seen", code=error.code, reason=error.message)
                except Exception as error:  # noqa: BLE001  a bug here must not end the controller
                    logger().error("budgets_not_seen", error_type=type(error).__name__, reason=str(error))
            await asyncio.sleep(every_s)

    async def look(self) -> int:
        ring = await self.ring()
        lines = await budget.read(self.ledger, ring, self.clock.now())
        self._show(lines)
        crossings = tuple(crossed(lines))
        new = [one for one in crossings if one.name not in self.raised and await self._raise_alarm(one, ring)]
        self.raised.clear()
        self.raised.update(crossing.name for crossing in crossings)
        if self.shared is not None:
            await self.shared.raise_spent({line.budget.meter: line.spent for line in lines})
        return len(new)

    async def _raise_alarm(self, crossing: Crossing, ring: KeyRing) -> bool:
        line, window = crossing.line, crossing.line.budget.window
        detail = f"{line.spent} of {line.budget.cap} micro-dollars, {crossing.percent} % of the {window.period}"
        act = Act(who="platform", what="budget.threshold", target=crossing.name, at=self.clock.now(), detail=detail)
        if not await self.log.note_threshold(replace(act, tenant=ring.tenant_of(line.budget.scope))):
            return False
        logger().warning(
            "budget_threshold",
            scope=line.budget.scope,
            window=window.name,
            percent=crossing.percent,
            spent_micro_usd=line.spent,
            cap_micro_usd=line.budget.cap,
        )
        return True

    def _show(self, lines: Sequence[BudgetLine]) -> None:
        gauge = self.metrics.gauge(names.BUDGET_USED_RATIO)
        gauge.clear()
        fullest = sorted(lines, key=lambda line: -line.used_ratio)
        for place, line in enumerate(fullest):
            scope, period = line.budget.scope, line.budget.window.period
            if place < MOST_SHOWN:
                gauge.labels(self.label(scope), period).set(line.used_ratio)
        for line in reversed(fullest[MOST_SHOWN:]):
            gauge.labels(OTHER, line.budget.window.period).set(line.used_ratio)
