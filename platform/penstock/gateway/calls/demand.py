"""A request's size and patience before its body is read, to be compared with a remembered refusal. Pure."""

from typing import NamedTuple

from penstock.domain.ids import TenantId

EVERYBODY = TenantId("")


class Demand(NamedTuple):
    """A request as far as it is known before it is read; without a deadline (0) it waits for ever."""

    tenant: TenantId = EVERYBODY
    body_bytes: int = 0
    deadline_s: float = 0.0

    def is_like(self, refused: "Demand") -> bool:
        """Tell whether a refusal of the other holds for this one: it is no smaller and no more patient."""
        is_patient = refused.deadline_s and not 0 < self.deadline_s <= refused.deadline_s
        return self.body_bytes >= refused.body_bytes and not is_patient


ANY = Demand()
