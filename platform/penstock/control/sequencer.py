"""The audit chain's sequencer in the leading controller: it links acts, signs heads, ships segments, moves old rows.

Acts are linked afterwards, so that none waits for another's; any controller may repeat each step at any moment. A
bucket that refuses delays shipping alone. Intervals are monotonic, lags and retention by the database's clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.audit.links import GENESIS, Link
from penstock.audit.segments import Head, SegmentStore, Signed, Signer, name_of, signed, written
from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, PenstockError
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics

EVERY_S = 0.25
"""Seconds between two looks for acts without a link."""
BATCH = 1_000
"""Acts that are linked in one transaction: 10 ms of hashing on the controller's loop."""
HEAD_EVERY_S = 50.0
"""Seconds after which links are signed: with a slow signature still within a minute."""
MOST_LINKS = 10_000
"""Links of one segment, about 3 MB; more are signed at once."""
SHIP_EVERY_S = 5.0
SHIP_AGAIN_S = 30.0
"""Seconds until a store that refused is tried again."""
AT_ONCE = 16
"""Segments that are shipped, and moved out, before the next look."""


class AuditChain(Protocol):
    async def extend(self, most: int) -> int: ...

    async def lag_s(self) -> float: ...

    async def unsigned(self) -> tuple[Head | None, int]: ...

    async def hash_of(self, number: int) -> bytes: ...

    async def close(self, segment: Signed) -> None: ...

    async def unshipped(self, most: int) -> Sequence[Signed]: ...

    async def count_unshipped(self) -> int: ...

    async def links(self, head: Head) -> list[Link]: ...

    async def shipped(self, last: int) -> None: ...

    async def move(self, keep_s: float) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What signs and what keeps segments; each is opened at its first use, in a thread."""

    signer: Callable[[], Signer]
    store: Callable[[], SegmentStore]


@dataclass(slots=True, kw_only=True)
class Sequencer:
    chain: AuditChain
    outside: Outside
    clock: Clock
    metrics: Metrics
    region: str
    keep_s: float
    """Seconds for which shipped rows stay in the database."""
    acts: Callable[[], bool]
    """Whether this controller leads."""
    _head_at: float = field(default=float("-inf"), init=False)
    _linked_at: float = field(default=0.0, init=False)
    _signer: Signer | None = field(default=None, init=False)
    _store: SegmentStore | None = field(default=None, init=False)

    async def run(self) -> None:
        self._linked_at = self.clock.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forever("link", self._link, EVERY_S))
            group.create_task(self._forever("sign", self._sign, 1.0))
            group.create_task(self._forever("ship", self.ship, SHIP_EVERY_S, again_s=SHIP_AGAIN_S))

    async def _forever(
        self, name: str, step: Callable[[], Awaitable[object]], every_s: float, *, again_s: float = 1.0
    ) -> None:
        while True:
            wait_s = every_s
            try:
                if self.acts():
                    await step()
                else:
                    self._stand_by()
            except PenstockError as error:
                wait_s = again_s
                logger().warning("audit_step_failed", task=name, code=error.code, reason=error.message)
            except Exception as error:  # noqa: BLE001  a bug here must not end the controller
                wait_s = again_s
                logger().error("audit_step_failed", task=name, error_type=type(error).__name__, reason=str(error))
            await asyncio.sleep(wait_s)

    def _stand_by(self) -> None:
        self._linked_at = self.clock.monotonic()
        self.metrics.gauge(names.AUDIT_CHAIN_LAG_SECONDS).set(0)
        self.metrics.gauge(names.AUDIT_UNSHIPPED_SEGMENTS).set(0)

    async def _link(self) -> None:
        lag_s = self.clock.monotonic() - self._linked_at
        try:
            await self.link()
            self._linked_at, lag_s = self.clock.monotonic(), await self.chain.lag_s()
        finally:
            self.metrics.gauge(names.AUDIT_CHAIN_LAG_SECONDS).set(max(0.0, lag_s))

    async def link(self) -> int:
        """Link all acts that wait; return their number."""
        total = 0
        while linked := await self.chain.extend(BATCH):
            total += linked
            self.metrics.counter(names.AUDIT_LINKS).inc(linked)
            if linked < BATCH:
                break
        return total

    async def _sign(self) -> None:
        if self.clock.monotonic() - self._head_at >= HEAD_EVERY_S:
            await self.sign()
            self._head_at = self.clock.monotonic()
            return
        newest, last = await self.chain.unsigned()
        if last - (newest.last if newest else 0) >= MOST_LINKS:
            await self.sign()

    async def sign(self) -> None:
        """Sign heads up to the last link; a segment's row decides if two controllers do."""
        newest, tail = await self.chain.unsigned()
        first, before = (newest.last + 1, newest.hash) if newest else (1, GENESIS)
        while first <= tail:
            last = min(tail, first + MOST_LINKS - 1)
            signer = await self._opened_signer()
            head = Head(
                first=first,
                last=last,
                before=before,
                hash=await self.chain.hash_of(last),
                region=self.region,
                at=round(self.clock.now(), 3),
                key=signer.fingerprint,
            )
            await self.chain.close(await asyncio.to_thread(signed, signer, head))
            first, before = last + 1, head.hash

    async def ship(self) -> None:
        """Ship segments in their order, then move old ones' rows out of the database."""
        gauge = self.metrics.gauge(names.AUDIT_UNSHIPPED_SEGMENTS)
        try:
            broken = [one.head.last for one in await self.chain.unshipped(AT_ONCE) if not await self._is_shipped(one)]
        finally:
            gauge.set(await self.chain.count_unshipped())
        if broken:
            raise Conflict(f"segments are not as signed: `penstock audit verify` says why; they end at links {broken}")
        moves = AT_ONCE if self.keep_s else 0
        while moves and await self.chain.move(self.keep_s):
            moves -= 1

    async def _is_shipped(self, segment: Signed) -> bool:
        """Ship a segment; False if its rows are not as signed."""
        head, links = segment.head, await self.chain.links(segment.head)
        if len(links) != head.last - head.first + 1 or links[-1].hash != head.hash:
            return False
        store = await self._opened_store()
        content = await asyncio.to_thread(written, segment, links)
        await asyncio.to_thread(store.put, name_of(segment, content), content)
        await self.chain.shipped(head.last)
        return True

    async def _opened_signer(self) -> Signer:
        if self._signer is None:
            self._signer = await asyncio.to_thread(self.outside.signer)
        return self._signer

    async def _opened_store(self) -> SegmentStore:
        if self._store is None:
            self._store = await asyncio.to_thread(self.outside.store)
        return self._store
