"""Fetches a version in a daemon thread, which does not delay exit: a fetch may take minutes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from penstock.domain.errors import ArtifactRefused
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId
from penstock.worker.artifacts.fetch import FetchProgress
from penstock.worker.artifacts.node import Copy, Watch

T = TypeVar("T")


async def obtained(
    obtain: Callable[[Watch], Copy],
    on_phase: Callable[[WorkerState], None],
    on_progress: Callable[[FetchProgress], None],
) -> Copy:
    loop = asyncio.get_running_loop()

    def phase(state: WorkerState) -> None:
        loop.call_soon_threadsafe(on_phase, state)

    def progress(progress: FetchProgress) -> None:
        loop.call_soon_threadsafe(on_progress, progress)

    return await _in_thread(lambda: obtain(Watch(phase=phase, progress=progress)))


def quietly(obtain: Callable[[VersionId], T]) -> Callable[[VersionId], Awaitable[T]]:
    return lambda version: _in_thread(lambda: obtain(version))


async def _in_thread(work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(copy: T | None, error: Exception | None) -> None:
        if result.done():
            return
        if copy is not None:
            result.set_result(copy)
        else:
            result.set_exception(error or ArtifactRefused())

    def run() -> None:
        try:
            copy, error = work(), None
        except Exception as caught:  # noqa: BLE001 - it is raised again where the work is awaited
            copy, error = None, caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, copy, error)

    threading.Thread(target=run, daemon=True, name="obtain").start()
    return await result
