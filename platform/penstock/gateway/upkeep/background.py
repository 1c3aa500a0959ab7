"""Background tasks of a process: single tasks, and loops that run as long as the process.

A failure is logged with the task's name and counted, and a loop restarts after a pause.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from penstock.telemetry import logs

AGAIN_S = 1.0
"""Seconds before a failed task starts again."""

Work = Coroutine[None, None, None]


def _uncounted(_: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Background:
    count: Callable[[str], None] = _uncounted
    again_s: float = AGAIN_S
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    kept: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(self, work: Work) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def keep(self, name: str, work: Callable[[], Work]) -> None:
        self.kept.add(asyncio.get_running_loop().create_task(self._run_on(name, work), name=name))

    async def end(self, within_s: float) -> None:
        if not self.tasks:
            return
        _, late = await asyncio.wait(set(self.tasks), timeout=within_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=within_s)

    async def stop(self) -> None:
        for task in self.kept:
            task.cancel()
        await asyncio.gather(*self.kept, return_exceptions=True)

    async def _run_on(self, name: str, work: Callable[[], Work]) -> None:
        while True:
            try:
                await work()
            except asyncio.CancelledError as error:
                if _is_to_end():
                    raise
                self._failed(name, error)  # something that it waited for was cancelled: that is not its end
            except Exception as error:  # noqa: BLE001  whatever it was: without it the process would serve half
                self._failed(name, error)
            else:
                return
            await asyncio.sleep(self.again_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(getattr(task.get_coro(), "__qualname__", task.get_name()), error)

    def _failed(self, name: str, error: BaseException) -> None:
        """The source position without the message, which may contain a caller's text."""
        self.count(name)
        cause = _first(error)
        logs.logger().error("background_failed", task=name, error_type=type(cause).__name__, detail=_place(cause))


def _is_to_end() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
