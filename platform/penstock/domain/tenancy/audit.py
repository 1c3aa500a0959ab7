"""Administrative acts for the audit log, written in the transaction of the change that they describe."""

from dataclasses import dataclass

from penstock.domain.ids import TenantId

NO_TENANT = TenantId("")
INTERVENTIONS = "safety.interventions"
"""An act that covers interventions: their number is its target, the SHA-256 of their rows its detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """``who`` is a key id or ``platform``; ``what`` a word such as ``key.revoke``; ``at`` Unix seconds. ``tenant`` may
    read the entry; empty for the platform's own acts. ``detail`` is for people: no secret, no prompt text.
    """

    who: str
    what: str
    target: str
    at: float
    detail: str = ""
    tenant: TenantId = NO_TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """``since`` and ``until`` in Unix seconds, ``what`` a kind or its first word; empty selects all."""

    since: float = 0.0
    until: float = 0.0
    who: str = ""
    what: str = ""

    def holds(self, act: Act) -> bool:
        in_time = act.at >= self.since and (not self.until or act.at < self.until)
        is_kind = act.what == self.what or act.what.startswith(f"{self.what}.")
        is_kind = is_kind if self.what else act.what != INTERVENTIONS
        return in_time and self.who in {"", act.who} and is_kind


ALL = Selection()
