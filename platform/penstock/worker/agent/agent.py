"""The agent: one process that controls one engine from start to end.

fetch → verify → start → warm up and test → ready → watched. A lost engine is restarted with backoff; a crash loop ends
the agent. On an order to sleep it frees the engine's memory once nothing runs.
"""

import asyncio
import os
import signal
from contextlib import suppress
from functools import partial

from penstock.domain.errors import ArtifactRefused, EngineError, PenstockError, StoreUnavailable
from penstock.domain.fleet.worker import WorkerEnd, WorkerOrder, WorkerReport, WorkerState
from penstock.domain.models.curves import Curve
from penstock.domain.serving.report import Load
from penstock.lateness.awake import AwakeClock, timeout
from penstock.telemetry.logs import logger
from penstock.telemetry.pages import serve
from penstock.tls.mutual import show_expiry
from penstock.worker.agent.adapters import AdapterLoader
from penstock.worker.agent.ahead import Ahead
from penstock.worker.agent.health import Restarts
from penstock.worker.agent.heartbeat import Heart
from penstock.worker.agent.lifecycle import Life
from penstock.worker.agent.obtaining import obtained, quietly
from penstock.worker.agent.ports import AgentConfig, Ports
from penstock.worker.agent.resting import Desire, Resting
from penstock.worker.agent.running import AnswersWrong, EngineLost, Hooks, Running
from penstock.worker.agent.status import WorkerMetrics, pages
from penstock.worker.artifacts.fetch import FetchProgress
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.process import EngineProcess
from penstock.worker.engines.vitals import oom_kills

EXIT_DRAINED = 0
EXIT_FAILED = 1
EXIT_FORCED = 2
_LOOK_S = 0.1
_ENGINE_GRACE_S = 5.0
_SLEEP_GRACE_S = 1.0
"""Nothing runs in an engine about to sleep, and another worker waits for its memory."""
_LAST_WORD_S = 2.0
_QUICK_S = 0.25
"""Heartbeat interval while the worker sleeps or an order to sleep is likely."""


class GaveUp(PenstockError):
    """The engine's start failed too often."""


_ENDS: dict[type[PenstockError], WorkerEnd] = {
    AnswersWrong: WorkerEnd.WRONG_ANSWERS,
    ArtifactRefused: WorkerEnd.REFUSED,
    GaveUp: WorkerEnd.GAVE_UP,
}
"""Worker ends by the error that caused them; any other error is a bug."""


class Agent:
    def __init__(self, config: AgentConfig, ports: Ports) -> None:
        self._config, self._ports = config, ports
        self._life = Life(ports.clock.monotonic(), ports.memory.recall(config.version, is_warm=ports.launcher.is_warm))
        self._metrics = WorkerMetrics(config.version, config.worker, config.zone)
        if ports.certificate:
            show_expiry(ports.certificate, self._metrics.metrics)
        self._restarts = Restarts()
        self._load, self._kv_blocks = Load(), 0
        self._batch_slots: int | None = None
        self._curve: Curve | None = None
        self._running: Running | None = None
        self._drain_asked, self._force_asked = asyncio.Event(), asyncio.Event()
        self._is_signalled = False
        self._adapters = AdapterLoader(
            client=ports.client,
            obtain=quietly(lambda version: ports.obtain(version, Watch())),
            clock=ports.clock,
            changed=self._changed,
        )
        self._ahead = Ahead(obtain=quietly(ports.ahead), changed=self._changed)
        self._heart = Heart(
            report=self.report,
            controller=ports.controller,
            tls=ports.tls,
            bearer=ports.bearer,
            on_order=self._on_order,
            on_pins=self._adapters.pin,
            on_ahead=self._ahead.want,
            on_batch_slots=self._on_batch_slots,
            every_s=self._beat_every_s,
        )
        self._desire = Desire()
        self._resting = Resting(
            desire=self._desire,
            client=ports.client,
            closed=partial(self._enter, WorkerState.SLEEPING),
            opened=partial(self._enter, WorkerState.READY),
        )
        self._hooks = Hooks(
            compiling=self._compiling,
            load=self._loaded,
            probed=self._metrics.probed,
            oom_kills=oom_kills,
            learned=self._learned,
            batch_slots=lambda: self._batch_slots,
        )

    async def run(self) -> int:
        self._listen_to_signals()
        self._metrics.state(self._life.state)
        page = pages(self.report, self._metrics, self._ports.client)
        server = await serve(self._config.status_host, self._config.status_port, page)
        port = server.sockets[0].getsockname()[1]
        self._ports.shown(port)
        logger().info("worker_started", worker=self._config.worker, version=self._config.version, port=port)
        beating, fetching = asyncio.create_task(self._heart.run()), asyncio.create_task(self._ahead.run())
        try:
            return await self._live()
        finally:
            beating.cancel()
            fetching.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(_LAST_WORD_S):
                    await self._heart.beat()
            server.close()

    def report(self) -> WorkerReport:
        return WorkerReport(
            worker=self._config.worker,
            version=self._config.version,
            state=self._life.state,
            url=self._config.url,
            zone=self._config.zone,
            pools=self._config.pools,
            pid=os.getpid(),
            load=self._load,
            phases=self._life.phases,
            detail=self._life.detail,
            ready_in_s=self._life.ready_in_s(self._ports.clock.monotonic()),
            restarts=self._life.restarts,
            restart_s=self._life.restart_s,
            key_mark=self._config.key_mark,
            end=self._life.end,
            adapters=self._adapters.resident,
            refused=self._adapters.refused,
            cached=self._ahead.cached,
            holds_memory=self._life.holds_memory,
            kv_blocks=self._kv_blocks,
            curve=self._curve,
        )

    # -- its life ----------------------------------------------------------------------

    async def _live(self) -> int:
        working = asyncio.create_task(self._work())
        if await self._first(working, self._drain_asked):
            return await self._fail(working)
        draining = asyncio.create_task(self._drain(working))
        if await self._first(draining, self._force_asked):
            draining.result()
            self._enter(WorkerState.STOPPED)
            return EXIT_DRAINED
        draining.cancel()
        await self._end_engine()
        self._enter(WorkerState.STOPPED, "forced")
        return EXIT_FORCED

    async def _first(self, work: asyncio.Task[None], event: asyncio.Event) -> bool:
        asked = asyncio.create_task(event.wait())
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        return work.done()

    async def _fail(self, working: asyncio.Task[None]) -> int:
        """Raise an error that is not a ``PenstockError`` again: it is a bug."""
        await self._end_engine()
        error = working.exception()
        detail = error.message if isinstance(error, PenstockError) else repr(error)
        self._life.will_end(next((end for kind, end in _ENDS.items() if isinstance(error, kind)), WorkerEnd.FAULT))
        self._enter(WorkerState.FAILED, detail)
        logger().error("worker_failed", worker=self._config.worker, detail=detail)
        if error is not None and not isinstance(error, PenstockError):
            raise error
        return EXIT_FAILED

    async def _work(self) -> None:
        copy, why = await self._obtain(), ""
        while True:
            if self._desire.is_sleep or self._life.state is WorkerState.SLEEPING:
                copy = await self._sleep(copy)
            else:
                self._enter(WorkerState.LOADING, why)
            lost = await self._serve(copy)
            if lost is None:
                continue
            why = f"{lost.cause}: {lost.message}"
            await self._recover(lost, why)
            copy = await self._obtained_again(copy)

    async def _serve(self, copy: Copy) -> EngineLost | None:
        try:
            running = await self._start(copy)
            watching = self._adapters.beside(running.watch(copy.manifest, self._hooks), copy.manifest)
            return await self._resting.unless_still(watching)
        except EngineLost as lost:
            return lost

    async def _sleep(self, copy: Copy) -> Copy:
        if self._life.state is not WorkerState.SLEEPING:
            self._enter(WorkerState.SLEEPING)
        await self._put_away()
        self._life.gave_back()
        self._load = Load()
        self._heart.beat_now()
        await self._desire.until_serve()
        self._enter(WorkerState.WAKING)
        return copy if self._running else await self._obtained_again(copy)

    async def _put_away(self) -> None:
        """Keep the process on a GPU and free the device's memory, else end the process."""
        if self._running is None:
            return
        if self._config.device != "cpu":
            with suppress(OSError, EngineError):
                await self._ports.client.sleep()
                return
        await self._running.engine.stop(_SLEEP_GRACE_S)
        await self._end_engine()

    async def _obtained_again(self, copy: Copy) -> Copy:
        held, copy = copy.hold, await self._obtain()
        held.release()
        return copy

    async def _obtain(self) -> Copy:
        obtain = partial(self._ports.obtain, self._config.version)
        while True:
            try:
                return await obtained(obtain, self._phase_of_obtaining, self._show)
            except StoreUnavailable as error:
                await self._wait_or_give_up(error)

    async def _start(self, copy: Copy) -> Running:
        is_awaited = self._life.state is WorkerState.WAKING
        slept, running = self._running, self._running or await self._launch(copy)
        if slept:
            await slept.wake(self._hooks)
        warming = partial(self._enter, WorkerState.WARMING)
        await running.warm(copy.manifest, self._hooks, warming, is_awaited=is_awaited)
        if slept:
            await self._ports.client.rest(on=False)
        self._enter(WorkerState.READY)
        self._ports.memory.keep(self._config.version, self._life.took_s, self._life.awaited_s)
        return running

    async def _launch(self, copy: Copy) -> Running:
        engine = await self._ports.launcher.start(self._ports.plan(copy), self._config.files)
        self._life.awaited(engine.awaited_s)
        self._config.files.pid.write_text(str(engine.pid))
        logger().info("engine_started", worker=self._config.worker, pid=engine.pid)
        self._running = Running(
            engine, self._ports.client, self._config.files.log, clock=AwakeClock(), pace=self._config.pace
        )
        self._metrics.devices(self._config.device, copy.manifest.engine.tensor_parallel_size)
        return self._running

    async def _recover(self, lost: EngineLost, why: str) -> None:
        self._life.restarts += 1
        self._metrics.restart(lost.cause)
        self._enter(WorkerState.VERIFYING, why)
        await self._end_engine()
        await self._wait_or_give_up(lost)

    async def _wait_or_give_up(self, error: PenstockError) -> None:
        backoff_s = self._restarts.failed(self._ports.clock.monotonic(), self._ports.chance)
        if backoff_s is None:
            raise GaveUp(f"gave up after repeated failures; the last one: {error.message}") from error
        logger().warning("worker_tries_again", worker=self._config.worker, reason=error.message, backoff_s=backoff_s)
        await asyncio.sleep(backoff_s)

    # -- its end -----------------------------------------------------------------------

    async def _drain(self, working: asyncio.Task[None]) -> None:
        served = self._life.state.serves or (self._life.state is WorkerState.SLEEPING and self._life.holds_memory)
        working.cancel()
        with suppress(asyncio.CancelledError, PenstockError):
            await working
        self._enter(WorkerState.DRAINING)
        if self._running is None:
            return
        engine = self._running.engine
        if served:
            await asyncio.sleep(self._config.linger_s)
            with suppress(TimeoutError):
                async with timeout(self._config.drain_grace_s):
                    await self._until_done(engine)
        await engine.stop(_ENGINE_GRACE_S)
        await self._end_engine()

    async def _until_done(self, engine: EngineProcess) -> None:
        while not engine.has_ended:
            with suppress(OSError, EngineError):
                if not (await self._ports.client.drain()).in_flight:
                    return
            await asyncio.sleep(_LOOK_S)

    async def _end_engine(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            self._config.files.pid.unlink(missing_ok=True)
            self._config.files.plan.unlink(missing_ok=True)
            await running.engine.end()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def _on_order(self, order: WorkerOrder) -> None:
        if order is not WorkerOrder.DRAIN:
            self._desire.hear(order)
            return
        self._life.will_end(WorkerEnd.DRAINED)
        self._drain_asked.set()

    def _changed(self) -> None:
        self._heart.beat_now()

    def _on_batch_slots(self, slots: int | None) -> None:
        self._batch_slots = slots

    def _beat_every_s(self) -> float:
        """Beat often if an order to wake may come, which arrives in an answer."""
        is_quick = self._config.is_pooled or self._life.state is WorkerState.SLEEPING
        return min(self._config.heartbeat_s, _QUICK_S) if is_quick else self._config.heartbeat_s

    def _on_signal(self) -> None:
        """Drain at the first signal, also if ordered before, as in a cluster; end at the second."""
        self._life.will_end(WorkerEnd.NOTICE if self._config.may_be_taken else WorkerEnd.DRAINED)
        (self._force_asked if self._is_signalled else self._drain_asked).set()
        self._is_signalled = True

    # -- what it says ------------------------------------------------------------------

    def _enter(self, state: WorkerState, detail: str = "") -> None:
        timing = self._life.enter(state, self._ports.clock.monotonic(), detail)
        seconds = round(timing.seconds, 3) if timing else None
        if timing:
            self._metrics.phase(timing)
        self._metrics.state(state)
        logger().info("worker_state", worker=self._config.worker, state=state, seconds=seconds, detail=detail)
        self._heart.beat_now()

    def _phase_of_obtaining(self, state: WorkerState) -> None:
        if state is not self._life.state and self._life.state in (WorkerState.FETCHING, WorkerState.VERIFYING):
            self._enter(state)

    def _show(self, progress: FetchProgress) -> None:
        self._life.say(f"{progress.bytes_done / 1e6:.0f} of {progress.bytes_total / 1e6:.0f} MB")

    def _compiling(self) -> None:
        if self._life.state is WorkerState.LOADING:
            self._enter(WorkerState.COMPILING)

    def _loaded(self, load: Load, kv_blocks: int) -> None:
        self._load, self._kv_blocks = load, kv_blocks

    def _learned(self, curve: Curve) -> None:
        self._curve = curve
