"""Whether a caller's limits are checked before its request is read, and passes for recorded answers. Pure.

Large bodies always meet the limits first; small ones if their key was refused lately: parsing and tokenising costs up
to a hundred times a look.

A caller over its limits may still have a recorded answer under an idempotency key, which is free. A recorded key with
another body ends its passes for a while.
"""

from typing import TypeVar

from penstock.domain.ids import KeyId, TenantId

REMEMBERED_S = 10.0
BARRED_S = 10.0
MOST_PASSES = 2
"""Requests of a tenant that are let past its limits at a time, for their records."""
MOST_REMEMBERED = 4096

T = TypeVar("T")


class EarlyLimits:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._refused: dict[KeyId, float] = {}
        self._passing: dict[TenantId, int] = {}
        self._barred: dict[TenantId, float] = {}

    def refused(self, key: KeyId, now: float) -> None:
        _keep(self._refused, key, now + REMEMBERED_S)

    def comes_first(self, key: KeyId, now: float) -> bool:
        """Tell whether this key's limits are checked before a small body is read."""
        return bool(self._refused) and self._refused.get(key, 0.0) > now

    def take_pass(self, tenant: TenantId, now: float) -> bool:
        """Let a request with a record past the limits; False if too many are, or the last had no record."""
        taken = self._passing.get(tenant, 0)
        if taken >= MOST_PASSES or self._barred.get(tenant, 0.0) > now:
            return False
        self._passing[tenant] = taken + 1
        return True

    def give_pass(self, tenant: TenantId, now: float, *, was_of_use: bool) -> None:
        """End a pass; one without a record bars the tenant for a while."""
        left = self._passing.pop(tenant) - 1
        if left:
            self._passing[tenant] = left
        if not was_of_use:
            _keep(self._barred, tenant, now + BARRED_S)


def _keep(until: dict[T, float], who: T, end: float) -> None:
    until.pop(who, None)
    until[who] = end
    if len(until) > MOST_REMEMBERED:
        del until[next(iter(until))]
