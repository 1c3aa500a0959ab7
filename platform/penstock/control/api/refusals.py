"""Refusals of authority as acts: one row at once, repeats within a minute as one more with their number.

Trade-off: of a flood by many callers at many routes the most are counted together, so that no flood fills the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import NO_TENANT, Act

WHAT = "access.refused"
UNKNOWN = "unknown"
"""The actor of a call without a valid key."""
WINDOW_S = 60.0
MOST = 500
"""Kinds of refusals that have rows of their own at a time."""


class Refused(NamedTuple):
    """``target`` is a method with its route, ``code`` the error's."""

    who: str
    target: str
    code: str
    tenant: TenantId = NO_TENANT


OTHERS = Refused(UNKNOWN, "several routes", "several")


@dataclass
class _Repeats:
    since: float
    count: int = 0


@dataclass
class Refusals:
    """What was refused within the last minute; moments are monotonic, ``at`` is Unix seconds."""

    _kinds: dict[Refused, _Repeats] = field(default_factory=dict)

    def take(self, refused: Refused, moment: float, at: float) -> Sequence[Act]:
        rows = list(self.ended(moment, at))
        if refused not in self._kinds and len(self._kinds) >= MOST:
            refused = OTHERS
        if refused in self._kinds:
            self._kinds[refused].count += 1
            return rows
        self._kinds[refused] = _Repeats(moment)
        return [*rows, _row(refused, refused.code, at)]

    def ended(self, moment: float, at: float) -> Sequence[Act]:
        """Return rows for the repeats of minutes that are over."""
        over = {kind: one for kind, one in self._kinds.items() if moment - one.since >= WINDOW_S}
        for kind in over:
            del self._kinds[kind]
        return [_row(kind, f"{kind.code}, {one.count} more times", at) for kind, one in over.items() if one.count]


def _row(kind: Refused, detail: str, at: float) -> Act:
    return Act(who=kind.who, what=WHAT, target=kind.target, at=at, detail=detail, tenant=kind.tenant)
