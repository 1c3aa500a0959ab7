"""Every invariant, in one list: the order is that of the modules and carries no meaning."""

from infra.policy import documents, settings, stack
from infra.policy.invariant import Invariant

INVARIANTS: tuple[Invariant, ...] = (*settings.invariants(), *documents.book.rules, *stack.book.rules)
