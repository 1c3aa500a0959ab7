"""Starts requests in turns by tenant and delays a tenant's refusals, so that a burst does not go first.

The event loop runs ready tasks in order of arrival: 200 requests at once would be read, checked and tokenised before a
neighbour's next token. So a request waits if this turn of the loop has done enough; each later turn starts a few of the
waiting requests, one per tenant. Waiting requests are bounded, with a share for each tenant.

Refused callers may come again at once, and a refusal costs a third of a millisecond. Beyond a burst, refusals are sent
at a fixed rate, so that their callers use a small part of a core. Nothing is held for them meanwhile.

Trade-off: requests of one burst start some turns later than they could, and a flooding caller gets its refusal later.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable

from penstock.domain.errors import OverLimit, Overloaded
from penstock.domain.ids import TenantId
from penstock.intake.share import SharedRoom

BUSY_S = 0.002
"""Seconds of a loop's turn after which further requests wait: to read and tokenise one takes one to three thousandths.
"""
STARTS = 2
"""Waiting requests that one turn starts, each of another tenant."""
MOST_WAITING = 2048
"""Requests that wait for their start; one tenant alone may have a half. A start takes milliseconds."""
RETRY_S = 1.0

REFUSALS_PER_S = 100.0
"""Refusals of one tenant a second beyond the burst: 3 % of a core."""
REFUSALS_AT_ONCE = 200.0
LONGEST_S = 5.0
"""Seconds that a refusal waits at most: clients give up after 10 and come again with a new connection."""
MOST_REMEMBERED = 4096


class StartTurns:
    """The delayed starts and refusals of one gateway; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._room = SharedRoom(MOST_WAITING)
        self._waiting: OrderedDict[TenantId, deque[asyncio.Future[None]]] = OrderedDict()
        self._began: float | None = None
        """The second of the first start in this turn of the loop; None before it."""
        self._due: OrderedDict[TenantId, float] = OrderedDict()
        """The second at which a tenant's refusals would all have been paid for at the pace."""

    async def take(self, tenant: TenantId) -> None:
        """Wait until the request may start; raises ``OverLimit`` if too many of its tenant's requests wait."""
        now = self._clock()
        if not self._waiting:
            if self._began is None:
                self._began = now
                asyncio.get_running_loop().call_soon(self._next)
                return
            if now - self._began < BUSY_S:
                return
        if not self._room.take(tenant, 1):
            raise self._refusal(tenant)
        start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(start)
        try:
            await start
        finally:
            self._room.give(tenant, 1)

    async def pace(self, tenant: TenantId) -> None:
        """Wait until this tenant's next refusal may be sent."""
        now = self._clock()
        due = max(self._due.pop(tenant, -math.inf), now - REFUSALS_AT_ONCE / REFUSALS_PER_S) + 1.0 / REFUSALS_PER_S
        self._due[tenant] = min(due, now + LONGEST_S)
        if len(self._due) > MOST_REMEMBERED:
            self._due.popitem(last=False)
        if due > now:
            await asyncio.sleep(self._due[tenant] - now)

    def _next(self) -> None:
        self._began = None
        if not self._waiting:
            return
        self._began = self._clock()
        asyncio.get_running_loop().call_soon(self._next)
        for tenant in list(self._waiting)[:STARTS]:
            line = self._waiting[tenant]
            while line:
                start = line.popleft()
                if not start.done():  # its caller waits still
                    start.set_result(None)
                    break
            if line:
                self._waiting.move_to_end(tenant)
            else:
                del self._waiting[tenant]

    def _refusal(self, tenant: TenantId) -> OverLimit | Overloaded:
        if 2 * self._room.held(tenant) >= self._room.used:
            says = "this tenant has too many requests that wait for their start in this gateway"
            return OverLimit(says, retry_after_s=RETRY_S, reason="tenant_starting")
        return Overloaded("too many requests wait for their start in this gateway", retry_after_s=RETRY_S)
