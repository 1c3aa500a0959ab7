"""Ends of attempts, in groups: results are sealed first, rows after, so that a row never names what is not there.

A single job's answer is an object of its own. Lines of a batch share one a second. A store that is away gets the same
ends again; what another runner holds by then is fenced: it changes nothing, and its answer is deleted.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, PenstockError, StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import StorageFull
from penstock.domain.jobs.ids import BatchId, ObjectId, RunnerId
from penstock.domain.jobs.job import End, Job, JobKind, JobState, PutBack
from penstock.domain.jobs.payload import NO_EXTENT, Extent, PayloadStore, object_id
from penstock.domain.jobs.stored_response import ResponseStatus
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.gateway.deferred import response_bodies
from penstock.gateway.listener.errors import response_of
from penstock.jobs.asking import Answered, request_id
from penstock.jobs.attempts import Next
from penstock.jobs.ports import JobStore
from penstock.telemetry import logs

GROUP_S = 0.02
"""Seconds in which ends are gathered: a transaction takes some milliseconds, and a single job's caller waits for it."""
SEGMENT_S = 1.0
"""Seconds of a batch's lines in one object: at most this work is lost with a runner."""
MOST = 500
"""Ends of one transaction."""
AGAIN_S = 0.5
OK = 200
CUT = "max_output_tokens"
"""The error of a response whose answer ended at its bound."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Done:
    """An attempt's end, and the job's way from there."""

    job: Job
    answered: Answered
    next: Next
    row: LedgerRow | None
    at: float
    output: Extent = NO_EXTENT

    @property
    def stores(self) -> bytes:
        """Return the bytes that are kept: the answer, or the API's error of a request that failed."""
        error = self.answered.error
        if error is None:
            return self.answered.body
        return self.said[1] if self.next.state is JobState.FAILED else b""

    @property
    def said(self) -> tuple[int, bytes]:
        """Return the status and body that the API would have given."""
        error = self.answered.error
        if error is None:
            return OK, self.answered.body
        status, _, body = response_of(error, request_id(self.job), self.job.api)
        return status, body

    @property
    def code(self) -> str:
        """Return the error's code; of a response that was cut, the bound: its event names the difference."""
        error = self.answered.error
        if error is not None:
            return error.code
        is_response = self.job.kind is JobKind.RESPONSE
        is_cut = is_response and response_bodies.status_of(self.answered.body) == ResponseStatus.INCOMPLETE
        return CUT if is_cut else ""

    @property
    def end(self) -> End:
        return End(
            id=self.job.id,
            epoch=self.job.epoch,
            state=self.next.state,
            at=self.at,
            reason=self.next.reason,
            status=self.said[0] if self.output is not NO_EXTENT else 0,
            error=self.code,
            request=request_id(self.job),
            output=self.output,
            prompt_tokens=self.answered.prompt_tokens,
            output_tokens=self.answered.output_tokens,
            row=self.row,
        )

    @property
    def back(self) -> PutBack:
        error = self.answered.error
        return PutBack(
            id=self.job.id,
            epoch=self.job.epoch,
            at=self.at,
            not_before=self.next.not_before,
            reason=self.next.reason,
            may_have_run=self.next.counts,
            error=error.code if error is not None else "",
            request=request_id(self.job),
            row=self.row,
        )


@dataclass(slots=True, kw_only=True)
class Endings:
    store: JobStore
    payloads: PayloadStore
    clock: Clock
    ended: Callable[[Done], None]
    fenced: Callable[[Done], None]
    _waiting: list[Done] = field(default_factory=list)
    _segments: int = 0
    _sealed_at: float = 0.0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A drain flushes beside the loop: an end that both stored would look fenced to the later one."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, done: Done) -> None:
        self._waiting.append(done)
        self._news.set()

    async def run(self, runner: Callable[[], RunnerId]) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await asyncio.sleep(GROUP_S)
            if not await self.flush(runner()):
                await asyncio.sleep(AGAIN_S)
            if self._waiting:
                self._news.set()
                await asyncio.sleep(GROUP_S)

    async def flush_all(self, runner: RunnerId) -> None:
        """Store all ends, however long their store is away."""
        while self._waiting:
            if not await self.flush(runner, is_last=True):
                await asyncio.sleep(AGAIN_S)

    async def flush(self, runner: RunnerId, *, is_last: bool = False) -> bool:
        """Store what has ended; False if a store is away. Lines wait for their second unless it is the last time."""
        async with self._storing:
            return await self._flush(runner, is_last=is_last)

    async def _flush(self, runner: RunnerId, *, is_last: bool) -> bool:
        now = self.clock.monotonic()
        lines_too = is_last or now - self._sealed_at >= SEGMENT_S
        due = [one for one in self._waiting if lines_too or not one.job.batch or not one.stores][:MOST]
        if lines_too:
            self._sealed_at = now
        try:
            due = await self._sealed(due, runner)
            await self._stored(due)
        except (StoreUnavailable, StorageFull) as error:
            logs.logger().warning("job_ends_wait", reason=error.message, count=len(self._waiting))
            return False
        return True

    async def _sealed(self, due: Sequence[Done], runner: RunnerId) -> list[Done]:
        """Return the ends with the places of their answers; those are kept if the rows can't be stored at once."""
        segments = dict[tuple[TenantId, BatchId], list[Done]]()
        ready = list[Done]()
        for done in due:
            if not done.stores or done.output is not NO_EXTENT:
                ready.append(done)
            elif done.job.batch:
                segments.setdefault((done.job.tenant, done.job.batch), []).append(done)
            else:
                place = object_id("job", done.job.name, f"answer-{done.job.epoch}")
                ready += await self._put(done.job.tenant, place, [done])
        for (tenant, batch), lines in segments.items():
            self._segments += 1
            ready += await self._put(tenant, object_id("batch", batch, f"{runner}-{self._segments}"), lines)
        return ready

    async def _put(self, tenant: TenantId, place: ObjectId, ends: Sequence[Done]) -> list[Done]:
        placed, at = list[Done](), 0
        for done in ends:
            placed.append(replace(done, output=Extent(object=place, at=at, size=len(done.stores))))
            at += len(done.stores)
        with suppress(Conflict):  # an earlier try of the same answer, whose end we did not see
            await self.payloads.put(tenant, place, b"".join(done.stores for done in ends))
        self._waiting = [one for one in self._waiting if one not in ends] + placed
        return placed

    async def _stored(self, due: Sequence[Done]) -> None:
        ended = [done for done in due if not done.next.state.is_open]
        back = [done for done in due if done.next.state.is_open]
        held = await self.store.finish([done.end for done in ended]) if ended else frozenset()
        again = await self.store.put_back([done.back for done in back]) if back else {}
        self._waiting = [one for one in self._waiting if one not in due]
        for done in due:
            if done.job.id in held or done.job.id in again:
                self.ended(done)
            else:
                await self._fence(done)

    async def _fence(self, done: Done) -> None:
        self.fenced(done)
        if done.output is not NO_EXTENT and not done.job.batch:
            with suppress(PenstockError):  # retention finds it
                await self.payloads.delete(done.output.object)
