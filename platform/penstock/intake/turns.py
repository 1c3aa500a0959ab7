"""Starts requests in turns by tenant and delays a tenant's refusals, so that a burst does not delay others.

The event loop runs ready tasks in order of arrival: 200 simultaneous requests would be read, checked and tokenised
before another caller's next token. So a request waits if this iteration of the loop has done enough; each later one
starts waiting requests, one per tenant in rotation, until its time is used up. Beyond a burst, refusals are sent at a
fixed rate.

Trade-off: requests of one burst start some iterations later than possible.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable

from penstock.domain.errors import OverLimit, Overloaded
from penstock.domain.ids import TenantId
from penstock.intake.share import SharedRoom

BUSY_S = 0.002
"""Seconds of an iteration after which further requests wait: reading and tokenising one takes one to three
milliseconds.
"""
ALONE_S = 0.01
"""The same without a neighbour: turns of 2 ms make each request a tenth dearer, turns of 10 ms a fiftieth."""
NEIGHBOUR_S = 10.0
"""Seconds for which a tenant counts as a neighbour after its last request."""
SHORTEST_S = 0.00025
"""Seconds that the start of a short request takes: a turn wakes no more requests than fit."""
MOST_WAITING = 2048
"""Requests waiting for their start; one tenant alone may have a half. A start takes milliseconds."""
RETRY_S = 1.0

REFUSALS_PER_S = 100.0
"""Refusals of one tenant a second beyond the burst: 3 % of a core."""
REFUSALS_AT_ONCE = 200.0
ENDS_A_TURN = 4
"""Refusals and abandoned requests that end in one iteration: a third of a millisecond each."""
LONGEST_S = 5.0
"""The longest delay of a refusal in seconds: clients give up after 10 and reconnect."""
MOST_REMEMBERED = 4096


class StartTurns:
    """Spaces one gateway's request starts and refusals over time, tenant by tenant in turn; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._room = SharedRoom(MOST_WAITING)
        self._waiting = _Rotation()
        self._late: deque[asyncio.Future[None]] = deque()
        """Requests that a turn woke and had no time left for: the next turn's first, in the same order."""
        self._began: float | None = None
        """The second of the first start in this turn of the loop; None before it."""
        self._busy_s = ALONE_S
        self._inside: dict[TenantId, int] = {}
        """Requests inside the gateway, by tenant."""
        self._last: TenantId | None = None
        self._mixed_at = -math.inf
        """The second of the last request beside another tenant's."""
        self._ended = 0
        """Requests that ended without an answer in this iteration."""
        self._ending = _Rotation()
        self._due: OrderedDict[TenantId, float] = OrderedDict()
        """The second at which a tenant's refusals would all have been paid for at the pace."""

    async def take(self, tenant: TenantId) -> None:
        """Wait until the request may start; raises ``OverLimit`` if too many of its tenant's requests wait.

        The request counts as its tenant's until ``leave``, whatever became of it.
        """
        now = self._clock()
        self._enter(tenant, now)
        if not self._waiting and not self._late:
            if self._began is None:
                self._began = now
                asyncio.get_running_loop().call_soon(self._next)
                return
            if now - self._began < self._busy_s:
                return
        if not self._room.take(tenant, 1):
            raise self._refusal(tenant)
        try:
            await self._waiting.add(tenant)
            while self._began is not None and self._clock() - self._began >= self._busy_s:
                start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._late.append(start)
                await start
        finally:
            self._room.give(tenant, 1)

    def _enter(self, tenant: TenantId, now: float) -> None:
        inside = self._inside
        inside[tenant] = inside.get(tenant, 0) + 1
        if len(inside) > 1 or self._last not in (tenant, None):
            self._mixed_at = now
        self._last = tenant
        self._busy_s = BUSY_S if now - self._mixed_at < NEIGHBOUR_S else ALONE_S

    def leave(self, tenant: TenantId) -> None:
        left = self._inside[tenant] - 1
        if left:
            self._inside[tenant] = left
        else:
            del self._inside[tenant]

    async def pace(self, tenant: TenantId) -> None:
        now = self._clock()
        due = max(self._due.pop(tenant, -math.inf), now - REFUSALS_AT_ONCE / REFUSALS_PER_S) + 1.0 / REFUSALS_PER_S
        self._due[tenant] = min(due, now + LONGEST_S)
        if len(self._due) > MOST_REMEMBERED:
            self._due.popitem(last=False)
        if due > now:
            await asyncio.sleep(self._due[tenant] - now)

    async def end(self, tenant: TenantId) -> None:
        """Wait until a request may end without an answer: few do so in one iteration of the loop."""
        if self._ended < ENDS_A_TURN and not self._ending:
            self._end_one()
            return
        await self._ending.add(tenant)

    def _end_one(self) -> None:
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._next_ends)
        self._ended += 1

    def _next_ends(self) -> None:
        self._ended = 0
        while self._ending and self._ended < ENDS_A_TURN:
            if self._ending.wake_one():
                self._end_one()

    def _next(self) -> None:
        """Wake the next starts, and read the clock before and after them: the loop runs these callbacks in order."""
        if not self._waiting and not self._late:
            self._began = None
            return
        loop = asyncio.get_running_loop()
        self._begin()
        loop.call_soon(self._begin)
        late, self._late = self._late, deque()
        woken = sum(map(_woken, late))
        most = self._busy_s / SHORTEST_S
        while self._waiting and woken < most:
            woken += self._waiting.wake_one()
        loop.call_soon(self._next)

    def _begin(self) -> None:
        self._began = self._clock()

    def _refusal(self, tenant: TenantId) -> OverLimit | Overloaded:
        if 2 * self._room.held(tenant) >= self._room.used:
            says = "too many of this tenant's requests wait to be started by this gateway"
            return OverLimit(says, retry_after_s=RETRY_S, reason="tenant_starting")
        return Overloaded("too many requests wait for their start in this gateway", retry_after_s=RETRY_S)


class _Rotation:
    def __init__(self) -> None:
        self._lines: OrderedDict[TenantId, deque[asyncio.Future[None]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, tenant: TenantId) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(turn)
        return turn

    def wake_one(self) -> bool:
        tenant, line = self._lines.popitem(last=False)
        is_woken = _woken(line.popleft())
        if line:
            self._lines[tenant] = line
        return is_woken


def _woken(start: asyncio.Future[None]) -> bool:
    if start.done():  # its caller has left
        return False
    start.set_result(None)
    return True
