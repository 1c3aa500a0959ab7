"""Keeps one process running: start, restart, replace; gives up on a crash loop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.worker import how_it_ended
from penstock.lateness import activity
from penstock.lateness.activity import is_stopped
from penstock.lateness.awake import awake_time
from penstock.supervision.child import Child, Command, spawn
from penstock.supervision.restarts import EVERY_S, WITHIN_S, Cause, Restart, RestartPolicy, until_silent

LOOK_S = 1.0
"""Between two looks at a starting process; the kernel counts its CPU time in hundredths of a second."""
BUSY_PART = 0.1
"""A process that takes or waits for this part of one core works."""
WORKING_STARTS = 20.0
"""A process that works may take as many times longer to start than one that does nothing."""


def unnoted(_: Restart) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """``ready`` is polled until the process serves."""

    command: Callable[[], Command]
    ready: Callable[[Child], Awaitable[bool]]
    clock: Clock
    report: Callable[[str], None]
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    ask: Callable[[Child], Awaitable[object]] | None = None
    """Returns as soon as the process answers at all; a process that misses several probes is killed."""
    restarted: Callable[[Restart], None] = unnoted
    ask_every_s: float = EVERY_S
    ask_within_s: float = WITHIN_S
    ready_within_s: float = 30.0
    """Awake seconds in which a starting process may do nothing: a busy machine delays a start and ends none."""
    poll_s: float = 0.05


class Supervisor:
    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._child: Child | None = None
        self._deaths: list[float] = []
        self._stopping = asyncio.Event()

    @property
    def child(self) -> Child:
        assert self._child is not None  # noqa: S101  nothing watches or stops what was never started
        return self._child

    @property
    def name(self) -> str:
        return self._spec.command().name

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None and self._child.code is None else 0

    async def start(self) -> None:
        await self.launch()
        await self._until_ready(self.child)

    async def launch(self) -> None:
        self._child = await spawn(self._spec.command())

    async def watch(self) -> None:
        """Return after ``stop``; ``CommandError`` on a crash loop of the process."""
        while not self._stopping.is_set():
            child = self.child
            hang = asyncio.create_task(self._kill_if_hung(child))
            try:
                code = await child.wait()
            finally:
                hang.cancel()
            if not self._stopping.is_set() and child is self.child:
                silent_s = hang.result() if hang.done() and not hang.cancelled() else 0.0
                await self._restart(child, code, silent_s)

    async def replace(self, grace_s: float) -> None:
        """The present process drains after that, and stays if the successor does not start."""
        if self._stopping.is_set():
            return
        fresh = await spawn(self._spec.command())
        try:
            await self._until_ready(fresh)
        except BaseException:
            fresh.kill()
            raise
        old, self._child = self.child, fresh
        await old.stop(grace_s)

    async def retire(self) -> None:
        self._stopping.set()
        await self.child.retire()

    async def stop(self, grace_s: float) -> None:
        self._stopping.set()
        if self._child is not None:
            await self._child.stop(grace_s)

    def kill(self) -> None:
        self._stopping.set()
        if self._child is not None:
            self._child.kill()

    async def _kill_if_hung(self, child: Child) -> float:
        """Return the seconds for which it has not answered."""
        if self._spec.ask is None:
            return 0.0
        spec, ask = self._spec, partial(self._spec.ask, child)
        stopped, every_s, within_s = partial(is_stopped, child.pid), spec.ask_every_s, spec.ask_within_s
        silent_s = await until_silent(ask, stopped, every_s=every_s, within_s=within_s)
        child.kill()
        return silent_s

    async def _restart(self, child: Child, code: int, silent_s: float) -> None:
        now = self._spec.clock.monotonic()
        self._deaths.append(now)
        wait_s = self._spec.policy.wait_s(self._deaths, now)
        name, log = child.command.name, child.command.log
        if wait_s is None:
            raise CommandError(
                f"The {name} keeps dying (the last time it {how_it_ended(code)}).",
                do="Read its log, mend the cause and run `penstock up` again.",
                log=log,
            )
        why = f"did not answer for {silent_s:.0f} s" if silent_s else how_it_ended(code)
        self._spec.restarted(Restart(process=name, cause=Cause.HUNG if silent_s else Cause.DIED, why=why))
        self._spec.report(f"{name} {why}; starting it again in {wait_s:.1f} s (log: {log})")
        await asyncio.sleep(wait_s)
        if not self._stopping.is_set():
            self._child = await spawn(self._spec.command())

    async def _until_ready(self, child: Child) -> None:
        name, log = child.command.name, child.command.log
        patience = _Patience(child.pid)
        while not await self._spec.ready(child):
            if child.code is not None:
                raise CommandError(f"The {name} {how_it_ended(child.code)} while starting.", log=log)
            patience.look()
            if patience.idle_s > (most_s := self._spec.ready_within_s) or patience.busy_s > WORKING_STARTS * most_s:
                child.kill()
                spent = f"{patience.busy_s:.0f} s of work and {patience.idle_s:.0f} s without"
                raise CommandError(f"The {name} was not ready after {spent}.", log=log)
            await asyncio.sleep(self._spec.poll_s)


class _Patience:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._at, self._seen = awake_time().seconds(), activity.of([pid])
        self.idle_s = self.busy_s = 0.0

    def look(self) -> None:
        now = awake_time().seconds()
        if (elapsed_s := now - self._at) < LOOK_S:
            return
        seen = activity.of([self._pid])
        if seen.wants_core or seen.is_busy(self._seen, elapsed_s, BUSY_PART):
            self.busy_s += elapsed_s
        else:
            self.idle_s += elapsed_s
        self._at, self._seen = now, seen
