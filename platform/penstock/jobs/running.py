"""The life of a job in a runner, from its claim to its end.

life confirmed → claim by version → principal → ``pipeline.ask`` → result sealed → end stored, in groups → taken over
by another runner if this one is lost

A runner has no memory that anything depends on: what it holds is in its rows, and a runner that was taken for dead
changes nothing any more.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.domain.ids import KeyId
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.job import ClaimQuota, Job, JobState
from penstock.domain.money import FREE
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.jobs import attempts, window
from penstock.jobs.asking import Answered, Asking, request_id
from penstock.jobs.attempts import Stopped
from penstock.jobs.bills import Bills
from penstock.jobs.ending import Done, Endings
from penstock.jobs.held import Held, HeldJobs
from penstock.jobs.hours import ClosedTenants
from penstock.jobs.ports import JobStore, RunnerLife, RunnerStore
from penstock.jobs.shown import RunnerMetrics
from penstock.lateness.awake import timeout

IDLE_S = 0.5
"""Seconds between two claims without news: jobs become due, hours open, budgets turn."""
STOPS_S = 0.25
"""Seconds between two questions for jobs to stop: a cancel frees its seat within a second."""
OTHERS_S = 0.5
"""Seconds between two looks for dead runners."""
TIDY_S = 1.0
AWAY_S = 0.5
LAST_S = 5.0
"""Seconds in which an ending runner stores its last ends; what it does not store is taken over."""
NOBODY = RunnerId(0)


@dataclass(slots=True, kw_only=True)
class Runner:
    store: JobStore
    life: RunnerLife
    others: RunnerStore
    asking: Asking
    held: HeldJobs
    endings: Endings
    bills: Bills
    plans: Callable[[float], ClosedTenants]
    """Returns what tenants' plans say at a Unix second."""
    is_revoked: Callable[[KeyId], bool]
    clock: Clock
    chance: random.Random
    metrics: RunnerMetrics
    me: RunnerId = NOBODY
    _is_ending: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # -- one job ------------------------------------------------------------------------------

    async def _run(self, held: Held) -> None:
        job = held.job
        self.bills.expect(request_id(job))
        try:
            answered = await self.asking.answer(held)
        except Exception as error:  # noqa: BLE001  a bug must not leave the job running for ever
            self.metrics.crashed(error)
            answered = Answered(error=PenstockError())
        self.held.leave(held)
        now = self.clock.now()
        following = attempts.after(job, answered.error, now, self.chance.random(), held.stopped)
        row = await self.bills.row(request_id(job))
        row = _kept(row, following, is_published=answered.is_published)
        self.endings.add(Done(job=job, answered=answered, next=following, row=row, at=now))

    # -- many jobs ------------------------------------------------------------------------------

    async def claim(self) -> None:
        """Claim what there is room for, again and again, until the drain."""
        while not self._is_ending:
            claimed: tuple[Job, ...] = ()
            self.held.news.clear()
            try:
                self._live_as(await self.life.confirm())
                if wants := self._wants():
                    began = self.clock.monotonic()
                    claimed = await self.store.claim(self.me, wants, self.clock.now())
                    self.metrics.claimed(claimed, self.clock.monotonic() - began, self.clock.now())
            except StoreUnavailable:
                await asyncio.sleep(AWAY_S)
                continue
            for job in claimed:
                self._begin(self.held.add(job))
            if not claimed:
                await self._until_news()

    def _wants(self) -> list[ClaimQuota]:
        """Return the room by version; none while ends wait that could not be stored."""
        if len(self.endings) >= window.MOST_HELD:
            return []
        lanes, plans = self.held.lanes(), self.plans(self.clock.now())
        return [
            ClaimQuota(version=version, jobs=room, closed=plans.closed | window.shut(lanes[version], plans.confined))
            for version, room in window.rooms(lanes).items()
        ]

    def _live_as(self, me: RunnerId) -> None:
        """Note the confirmed life; a new one means that the jobs of the old one are other runners' by now."""
        if me != self.me:
            for held in self.held:
                held.stop(Stopped.DRAINED)
        self.me = me
        self.metrics.confirmed(self.clock.now())

    def _begin(self, held: Held) -> None:
        task = asyncio.get_running_loop().create_task(self._run(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def look(self, _: object) -> None:
        """Claim at once: a job was submitted."""
        self.held.news.set()

    async def _until_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S):
                await self.held.news.wait()

    async def stop_asked(self) -> None:
        """End the requests of jobs that were cancelled or paused, are late, or were submitted with a revoked key."""
        while True:
            await asyncio.sleep(STOPS_S)
            for held in self.held:
                if self.is_revoked(held.job.key):
                    held.stop(Stopped.KEY_REVOKED)
            if not len(self.held) or self.me == NOBODY:
                continue
            with suppress(StoreUnavailable):
                for stop in await self.store.asked_to_stop(self.me, self.clock.now()):
                    if (asked := self.held.find(stop.id, stop.epoch)) is not None:
                        asked.stop(Stopped(stop.why))

    async def take_over(self) -> None:
        while True:
            await asyncio.sleep(OTHERS_S)
            if self.me != NOBODY:
                with suppress(StoreUnavailable):
                    self.metrics.taken_over(await self.others.take_over(self.me, self.clock.now()))

    async def tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            if self.me == NOBODY:  # the time of day is the database's from its first answer on
                continue
            with suppress(StoreUnavailable):
                now = self.clock.now()
                self.metrics.late(await self.store.tidy(now))
                self.metrics.shape(await self.store.shape(), now)

    async def end(self) -> None:
        await self.endings.run(lambda: self.me)

    @property
    def loops(self) -> Mapping[str, Callable[[], Coroutine[None, None, None]]]:
        """The runner's loops by name; each is started again if it fails."""
        return {
            "claims": self.claim,
            "stops": self.stop_asked,
            "others": self.take_over,
            "tidy": self.tidy,
            "ends": self.end,
        }

    # -- its own end -----------------------------------------------------------------------------

    async def drain(self, grace_s: float) -> None:
        """Claim no more, give back what has not begun; what runs may end within the grace, else goes back, too."""
        self._is_ending = True
        for held in self.held:
            if not held.has_output:
                held.stop(Stopped.DRAINED)
        await self._until_ended(grace_s)
        for held in self.held:
            held.stop(Stopped.DRAINED)
        await self._until_ended(LAST_S)
        with suppress(TimeoutError):
            async with timeout(LAST_S):
                await self.endings.flush_all(self.me)
        await self.life.resign()

    async def _until_ended(self, within_s: float) -> None:
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)


def _kept(row: LedgerRow | None, following: attempts.Next, *, is_published: bool) -> LedgerRow | None:
    """Return the attempt's ledger row; None if it was none and reached no engine.

    It is free without a delivered answer, but for events that the tenant could read.
    """
    if row is None or following.state is JobState.SUCCEEDED:
        return row
    ran = row.prompt_tokens + row.output_tokens > 0
    row = row if is_published else replace(row, cost=FREE)
    return row if ran or following.counts else None
