"""Which callers meet their limits before their request is read, and which pass them for a record. Pure.

Large bodies always meet the limits first. Small ones do if their key was refused of late: its next ones cost a look
each, and parsing and tokenising them would cost up to a hundred times that.

A caller over its limits may still have a recorded answer under an idempotency key, which costs nothing. A request with
a recorded key and another body ends further passes for a while.
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
        """A limit has refused this key."""
        _keep(self._refused, key, now + REMEMBERED_S)

    def comes_first(self, key: KeyId, now: float) -> bool:
        """Tell whether this key's limits are asked before a small body is read."""
        return bool(self._refused) and self._refused.get(key, 0.0) > now

    def take_pass(self, tenant: TenantId, now: float) -> bool:
        """Let a request with a record past the limits; False if too many are, or the last one had none."""
        taken = self._passing.get(tenant, 0)
        if taken >= MOST_PASSES or self._barred.get(tenant, 0.0) > now:
            return False
        self._passing[tenant] = taken + 1
        return True

    def give_pass(self, tenant: TenantId, now: float, *, was_of_use: bool) -> None:
        """The request is over; it got its record, or it did not."""
        left = self._passing.pop(tenant) - 1
        if left:
            self._passing[tenant] = left
        if not was_of_use:
            _keep(self._barred, tenant, now + BARRED_S)


def _keep(until: dict[T, float], who: T, end: float) -> None:
    """Remember a key or tenant as the latest; the oldest is forgotten."""
    until.pop(who, None)
    until[who] = end
    if len(until) > MOST_REMEMBERED:
        del until[next(iter(until))]
