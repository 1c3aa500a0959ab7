"""Rebuilds budget counters from the ledger after a start, or when a budget is new.

Counters are only raised, so requests may run meanwhile: a settlement without its row yet stays counted. Only today's
and this month's windows matter.
"""

from penstock.domain.tenancy import budget
from penstock.domain.tenancy.ledger import LedgerReader
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import KeyRing


async def rebuild(reader: LedgerReader, store: SpentStore, ring: KeyRing, now: float) -> int:
    """Return the number of budgets; ``now`` is Unix seconds. Raises ``StoreUnavailable``."""
    lines = await budget.read(reader, ring, now)
    await store.raise_spent({line.budget.meter: line.spent for line in lines})
    return len(lines)
