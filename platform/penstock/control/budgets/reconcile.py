"""Reconciliation of meters with the ledger, which is the truth (B6).

At rest they agree. Under load, meters are ahead by what is settled and not yet written.
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
        """Micro-dollars that the meter is above the ledger."""
        return self.counted - self.line.spent


async def compare(reader: LedgerReader, store: SpentStore, ring: KeyRing, now: float) -> tuple[BudgetComparison, ...]:
    """Return every budget in force with its meter; raises ``StoreUnavailable``."""
    lines = await budget.read(reader, ring, now)
    counted = await store.spent([line.budget.meter for line in lines])
    return tuple(BudgetComparison(line=line, counted=MicroUsd(counted[line.budget.meter])) for line in lines)


async def correct(compared: tuple[BudgetComparison, ...], store: SpentStore) -> int:
    """Set the meters to the ledger, for a platform at rest; return how many differed."""
    wrong = {one.line.budget.meter: int(one.line.spent) for one in compared if one.difference}
    await store.put_spent(wrong)
    return len(wrong)
