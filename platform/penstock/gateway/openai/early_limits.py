"""Decides whether limits are checked before a request is read; issues passes for recorded answers. Pure.

Large bodies are always checked against the limits first, small ones if their key was refused lately: parsing and
tokenising costs up to a hundred times more. A pass lets a caller over its limits get a recorded answer under an
idempotency key, which is free.
"""

from typing import TypeVar

from penstock.domain.ids import KeyId, TenantId

REMEMBERED_S = 10.0
BARRED_S = 10.0
MOST_PASSES = 2
"""Concurrent requests of a tenant that may skip its limits for their records."""
MOST_REMEMBERED = 4096

T = TypeVar("T")


class EarlyLimits:
    def __init__(self) -> None:
        self._refused: dict[KeyId, float] = {}
        self._passing: dict[TenantId, int] = {}
        self._barred: dict[TenantId, float] = {}

    def refused(self, key: KeyId, now: float) -> None:
        _keep(self._refused, key, now + REMEMBERED_S)

    def comes_first(self, key: KeyId, now: float) -> bool:
        return bool(self._refused) and self._refused.get(key, 0.0) > now

    def take_pass(self, tenant: TenantId, now: float) -> bool:
        taken = self._passing.get(tenant, 0)
        if taken >= MOST_PASSES or self._barred.get(tenant, 0.0) > now:
            return False
        self._passing[tenant] = taken + 1
        return True

    def give_pass(self, tenant: TenantId, now: float, *, was_of_use: bool) -> None:
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
