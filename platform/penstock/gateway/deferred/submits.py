"""Bounds concurrent submits of one gateway, so that a flood of them does not delay streams.

Submits start in turns with requests, tenant by tenant. Beyond the bound they are refused before their body is read.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.domain.clock import Clock
from penstock.domain.errors import OverLimit, Overloaded, PenstockError
from penstock.domain.ids import TenantId
from penstock.intake.share import SharedRoom
from penstock.intake.turns import StartTurns

MOST_AT_ONCE = 32
"""Submits in progress: each takes milliseconds of the loop, and waits for two disks. One tenant alone has a half."""
USUAL_S = 0.02
"""The first estimate of a submit's length."""
FADES = 0.1
"""The weight of a new length in the mean."""


class Submits:
    """The wait that a refusal tells is their mean length."""

    def __init__(self, turns: StartTurns, clock: Clock, most: int = MOST_AT_ONCE) -> None:
        self._turns, self._clock = turns, clock
        self._room = SharedRoom(most)
        self._mean_s = USUAL_S

    @asynccontextmanager
    async def one(self, tenant: TenantId) -> AsyncIterator[None]:
        """Raises ``OverLimit`` or ``Overloaded`` with the time until there is room."""
        if not self._room.take(tenant, 1):
            await self._turns.pace(tenant)
            raise self._refusal(tenant)
        began = self._clock.monotonic()
        try:
            await self._turns.take(tenant)
            try:
                yield
            finally:
                self._turns.leave(tenant)
        finally:
            self._room.give(tenant, 1)
            self._mean_s += FADES * (self._clock.monotonic() - began - self._mean_s)

    def _refusal(self, tenant: TenantId) -> PenstockError:
        wait_s = math.ceil(10.0 * self._mean_s) / 10.0
        if 2 * self._room.held(tenant) >= self._room.used:
            says = "this tenant submits too many at once: use a batch, or wait for the answer of each submit"
            return OverLimit(says, retry_after_s=wait_s, reason="tenant_submits")
        return Overloaded("too many submits are in progress at this gateway", retry_after_s=wait_s)
