"""A request's size and time limit before its body is read: one like a request just refused is refused, too. Pure."""

from typing import NamedTuple

from penstock.domain.ids import TenantId

EVERYBODY = TenantId("")


class Demand(NamedTuple):
    """A request's need of a worker; without a deadline (0) it waits forever."""

    tenant: TenantId = EVERYBODY
    body_bytes: int = 0
    deadline_s: float = 0.0
    pools: frozenset[str] = frozenset()
    """Only workers in one of them may answer; empty for all."""

    def is_like(self, refused: "Demand") -> bool:
        is_patient = refused.deadline_s and not 0 < self.deadline_s <= refused.deadline_s
        return self.body_bytes >= refused.body_bytes and not is_patient


ANY = Demand()
