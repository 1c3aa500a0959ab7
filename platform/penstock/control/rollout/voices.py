"""What is left of the evidence against a candidate without any one tenant: nobody alone has a version aborted.

A caller sees which version answers it, and may send the candidate alone what ends at once or never. So for each tenant
with such events the bets go on without them beside those of all, and only where each of these reaches the odds as well
is it more than one tenant's word. A tenant that comes later had no part in what was before: its bets begin as a copy.
Trade-off: of a tenant's answers only the bad ones are left out, which makes the rest look better than it is; and two
tenants that agree still decide.
"""

from collections.abc import Mapping

from penstock.control.rollout.bets import Bets
from penstock.domain.ids import TenantId

MOST_VOICES = 16
"""Tenants whose part is known; of more, those go that matter least."""


class Voices:
    """The bets without each of the tenants that had bad events since the evidence of all was last nothing."""

    def __init__(self) -> None:
        self._without: dict[TenantId, Bets] = {}

    def slot(self, before: Bets, so: Mapping[TenantId, int], all_: int, mean: float, cap: float) -> None:
        """Take a slot's bad events by tenant, of so many events; ``before`` are the bets of all without this slot."""
        if not before.has_won:
            self._without.clear()
        for tenant in so:
            if tenant not in self._without:
                self._without[tenant] = before.copied()
        bad = sum(so.values())
        for tenant, bets in self._without.items():
            bets.slot({1.0: bad - so.get(tenant, 0), 0.0: all_ - bad}, mean, cap)
        while len(self._without) > MOST_VOICES:
            del self._without[max(self._without, key=lambda one: self._without[one].log_evidence)]

    def agree(self, log_odds: float) -> bool:
        """Tell whether the evidence is as strong as that without any one of them."""
        return bool(self._without) and all(bets.reaches(log_odds) for bets in self._without.values())
