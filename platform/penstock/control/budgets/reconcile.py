"""Reconciliation of meters with the ledger, which is the source of truth (B6).

At rest the two agree. Under load, meters include settlements without ledger rows yet.
"""

from dataclasses import dataclass

from penstock.domain.money import MicroUsd
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.budget import BudgetLine
from penstock.domain.tenancy.ledger import LedgerReader
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import KeyRing


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetComparison:
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
    """Set the meters to the ledger's sums, for a platform at rest; return the number of differing meters."""
    wrong = {one.line.budget.meter: int(one.line.spent) for one in compared if one.difference}
    await store.put_spent(wrong)
    return len(wrong)
