"""One engine's run from start to end: wait until it is up, warm it up, test it, watch it.

Progress and faults are reported by callbacks: this module knows neither the worker's states nor the controller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from penstock.domain.clock import Clock
from penstock.domain.errors import EngineError, PenstockError
from penstock.domain.fleet.worker import how_it_ended
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import Manifest
from penstock.domain.serving.report import Load
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.health import Cause, cause_of
from penstock.worker.agent.learning import Learning
from penstock.worker.agent.log_tail import LogTail
from penstock.worker.agent.warmup import golden, warm
from penstock.worker.agent.watchdog import Doing, StallLimits, Watchdog, doing
from penstock.worker.engines import vitals
from penstock.worker.engines.process import EngineProcess
from penstock.worker.engines.translate import EngineNumbers
from penstock.worker.engines.vitals import Vitals

_POLL_S = 0.02
_COMPILING = (b"Compiling a graph", b"Capturing CUDA graph", b"Start compiling")
"""Log lines with which vLLM begins to compile."""


class EngineLost(PenstockError):
    """The engine has to be started again."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class AnswersWrong(PenstockError):
    """The engine runs and answers a golden prompt wrong; starting it again would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIntervals:
    look_every_s: float = 1.0
    probe_every_s: float = 2.0
    probe_timeout_s: float = 10.0
    start_still_s: float = 120.0
    """A starting engine that does nothing for so long counts as hung; one that works has six times as long between two
    lines of its log, and one that compiles thirty times.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    compiling: Callable[[], None]
    load: Callable[[Load, int], None]
    """Takes the gate's load, and the blocks of the engine's KV cache."""
    probed: Callable[[float], None]
    oom_kills: Callable[[], int | None]
    learned: Callable[[Curve], None]
    batch_slots: Callable[[], int | None] = lambda: None


class Probing:
    """Probes in a task of its own: a slow probe does not delay reading the counters."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, bool]], every_s: float) -> None:
        self._ask, self._every_s = ask, every_s
        self._next_at = 0.0
        self._asking: asyncio.Task[bool] | None = None
        self._has_passed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def begin(self, now: float) -> None:
        if self._asking is None and now >= self._next_at:
            self._next_at = now + self._every_s
            self._asking = asyncio.ensure_future(self._ask())

    def has_passed(self) -> bool:
        if self._asking is not None and self._asking.done():
            self._has_passed, self._asking = self._asking.result(), None
        return self._has_passed


class EngineEvidence:
    def __init__(self, pid: int, log: LogTail) -> None:
        self._pid, self._log = pid, log
        self.says_compiling = False
        self._before: tuple[Vitals, float] | None = None

    def read_log(self, *, moved: bool) -> None:
        """Bounds the log's size; after progress (``moved``) earlier signs are dropped."""
        if moved:
            self.says_compiling, self._before = False, None
        self.says_compiling = self._log.has_new(_COMPILING) or self.says_compiling
        self._log.trim()

    def look(self, now: float, *, answers: bool) -> Doing:
        """Activity since the last call; at the first call, the present one."""
        seen = vitals.read(self._pid)
        before, at = self._before or (None, now)
        self._before = (seen, now)
        did = doing(before, seen, now - at, answers=answers)
        return Doing.COMPILING if did is Doing.WORKING and self.says_compiling else did


class Running:
    def __init__(
        self, engine: EngineProcess, client: GateClient, log: Path, *, clock: Clock, pace: RunIntervals
    ) -> None:
        self.engine, self.client = engine, client
        self._clock, self._pace = clock, pace
        self._log = LogTail(log)
        self._evidence = EngineEvidence(engine.pid, self._log)
        self._learning = Learning(clock)

    async def wake(self, hooks: Hooks) -> None:
        try:
            await self._or_its_end(self.client.wake(), hooks)
        except (OSError, EngineError) as error:
            raise EngineLost(Cause.CRASH, f"it did not wake: {error}") from error

    async def warm(
        self, manifest: Manifest, hooks: Hooks, on_up: Callable[[], None], *, is_awaited: bool = False
    ) -> None:
        """Raises ``EngineLost`` or ``AnswersWrong``. With ``is_awaited`` callers wait: only golden prompts are asked,
        since warm-up shapes would delay them more than they save.
        """
        await self._or_its_end(self._up(hooks), hooks)
        on_up()
        await self._or_its_end(self._warm(manifest, shapes=not is_awaited), hooks)

    async def watch(self, manifest: Manifest, hooks: Hooks) -> EngineLost:
        try:
            await self._or_its_end(self._look_after(manifest, hooks), hooks)
        except EngineLost as lost:
            return lost
        raise AssertionError("an engine is watched until it is lost")

    async def _or_its_end(self, work: Awaitable[None], hooks: Hooks) -> None:
        oom_kills = hooks.oom_kills()
        working, ended = asyncio.ensure_future(work), asyncio.ensure_future(self.engine.wait())
        try:
            await asyncio.wait({working, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise self._lost(ended.result(), oom_kills, hooks)
            await working
        finally:
            for task in (working, ended):
                task.cancel()
                with suppress(asyncio.CancelledError, PenstockError, OSError):
                    await task

    def _lost(self, exit_code: int | None, oom_kills_before: int | None, hooks: Hooks) -> EngineLost:
        now = hooks.oom_kills()
        new = None if now is None or oom_kills_before is None else now - oom_kills_before
        core = self._log.core_code()
        what, code = ("engine", exit_code) if core is None else ("engine's core", core)
        return EngineLost(cause_of(code, oom_kills=new), f"the {what} {how_it_ended(code)}: {self._log.reason()}")

    async def _up(self, hooks: Hooks) -> None:
        dog, look_at = Watchdog(StallLimits.of(self._pace.start_still_s), self._clock.monotonic()), 0.0
        while not await self._is_up():
            self._evidence.read_log(moved=False)
            if self._evidence.says_compiling:
                hooks.compiling()
            if (now := self._clock.monotonic()) >= look_at:
                look_at = now + self._pace.look_every_s
                dog.look(self._log.position, self._evidence.look(now, answers=True), now)
            if dog.verdict:
                raise EngineLost(Cause.HANG, f"not up: {dog.verdict}")
            await asyncio.sleep(_POLL_S)

    async def _is_up(self) -> bool:
        with suppress(OSError):
            return await self.client.is_healthy()
        return False

    async def _warm(self, manifest: Manifest, *, shapes: bool) -> None:
        try:
            if shapes:
                await warm.work_through(manifest.task, manifest.engine, self.client.ask)
            fault = await golden.check(manifest, self.client.ask)
        except (OSError, EngineError) as error:
            raise EngineLost(Cause.CRASH, f"the warm-up failed: {error}") from error
        if fault:
            raise AnswersWrong(fault)

    async def _look_after(self, manifest: Manifest, hooks: Hooks) -> None:
        pace = self._pace
        dog = Watchdog(StallLimits.of(pace.probe_timeout_s), self._clock.monotonic())
        short_s = pace.probe_timeout_s / 4
        async with Probing(partial(self._probe, manifest, hooks, short_s), pace.probe_every_s) as probing:
            while True:
                is_idle = await self._look(dog, hooks, short_s, is_probed=probing.has_passed())
                if dog.verdict:
                    raise EngineLost(Cause.HANG, dog.verdict)
                if is_idle or dog.silent_s:
                    probing.begin(self._clock.monotonic())
                if self._learning.is_due and not dog.silent_s:
                    await self._learn(hooks, short_s)
                await asyncio.sleep(pace.look_every_s)

    async def _look(self, dog: Watchdog, hooks: Hooks, timeout_s: float, *, is_probed: bool) -> bool:
        """Read the numbers for watchdog and gate; return whether the engine is idle."""
        numbers = await self._numbers(timeout_s)
        marker, now = numbers.progress if numbers else None, self._clock.monotonic()
        moved = dog.has_moved(marker)
        self._evidence.read_log(moved=moved)
        did = self._evidence.look(now, answers=numbers is not None)
        still = did is Doing.NOTHING and not moved
        is_idle = numbers is not None and await self._tell(numbers, hooks, timeout_s, still=still)
        dog.look(marker, Doing.RESTING if is_idle and is_probed else did, now)
        return is_idle

    async def _numbers(self, timeout_s: float) -> EngineNumbers | None:
        try:
            if not await self.client.is_healthy(timeout_s):
                raise EngineLost(Cause.CRASH, "the engine says that its core is dead")
            return await self.client.numbers(timeout_s)
        except (
            ConnectionRefusedError
        ) as refused:  # a server that shuts down waits for its requests, for ever if one hangs
            raise EngineLost(Cause.CRASH, "the engine's server accepts no connections") from refused
        except OSError:
            return None

    async def _tell(self, numbers: EngineNumbers, hooks: Hooks, timeout_s: float, *, still: bool) -> bool:
        try:
            state = await self.client.observe(numbers, timeout_s, still=still, batch_slots=hooks.batch_slots())
        except (OSError, EngineError):
            return False
        hooks.load(state.load, numbers.kv_blocks)
        return state.in_flight == 0

    async def _learn(self, hooks: Hooks, timeout_s: float) -> None:
        learning = self._learning
        try:
            told = await self.client.steps(timeout_s=timeout_s)
            if learning.look(told) and learning.curve is not None:
                hooks.learned(learning.curve)
                await self.client.steps(learning.curve.model, timeout_s)
        except EngineError:
            learning.stop()
        except OSError:
            return

    async def _probe(self, manifest: Manifest, hooks: Hooks, timeout_s: float) -> bool:
        began = self._clock.monotonic()
        try:
            await self.client.probe(manifest.task, timeout_s)
        except (OSError, EngineError):
            return False
        hooks.probed(self._clock.monotonic() - began)
        return True
