"""Administrative acts: who did what to what, and when. Written in the transaction of the act itself."""

from dataclasses import dataclass

from penstock.domain.ids import TenantId

NO_TENANT = TenantId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act. ``who`` is a key id or ``platform``; ``what`` a word such as ``key.revoke``; ``at`` Unix seconds.

    ``tenant`` is the one that it concerns and that may read it, empty where it is the platform's own affair.
    ``detail`` is for people and holds no secret and no prompt text.
    """

    who: str
    what: str
    target: str
    at: float
    detail: str = ""
    tenant: TenantId = NO_TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which acts: ``since`` and ``until`` in Unix seconds, ``what`` a kind or its first word; empty is all."""

    since: float = 0.0
    until: float = 0.0
    who: str = ""
    what: str = ""

    def holds(self, act: Act) -> bool:
        """Tell whether this act is one of them."""
        in_time = act.at >= self.since and (not self.until or act.at < self.until)
        is_kind = self.what in {"", act.what} or act.what.startswith(f"{self.what}.")
        return in_time and self.who in {"", act.who} and is_kind


ALL = Selection()
