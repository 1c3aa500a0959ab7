"""The main function of ``penstock up``: phases, watching, draining, and the meaning of signals.

SIGINT or SIGTERM drains, a second one forces; SIGHUP replaces the gateways one by one, SIGUSR1 the workers, SIGUSR2 the
jobs runners.
"""

import asyncio
import signal

from rich.console import Console

from penstock.apps.sharing import check_shared
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local import observing
from penstock.local.platform import LocalPlatform
from penstock.local.screen import Screen
from penstock.settings import Settings
from penstock.settings.processes import FleetKind
from penstock.supervision import exposition
from penstock.supervision.lock import HomeLock

PHASES = 7


def run(settings: Settings, *, ask: bool) -> int:
    settings, most_gateways = _with_gateways(settings)
    check_shared(settings.model_copy(update={"gateways": max(settings.gateways, most_gateways)}))
    observing.check(settings)
    clock = SystemClock()
    screen = Screen(Console(), clock, PHASES + settings.observe + bool(settings.job_runners), settings.paths.logs)
    with HomeLock(settings.paths.run):
        exposition.check_port(settings.metrics_address)
        platform = LocalPlatform(settings, screen, clock, most_gateways)
        return asyncio.run(_Session(platform, screen).run(ask=ask))


def _with_gateways(settings: Settings) -> tuple[Settings, int]:
    """Add the first number of gateways, and the largest; 0 if not scaled."""
    if not settings.scale_file or settings.fleet is not FleetKind.LOCAL:
        return settings, 0
    from penstock.apps.scales import bounds_of

    if (bounds := bounds_of(settings).gateways) is None:
        return settings, 0
    first = max(bounds.least, min(settings.gateways, bounds.most))
    return settings.model_copy(update={"gateways": first}), bounds.most


class _Session:
    """The first signal ends the work, the second one the draining."""

    def __init__(self, platform: LocalPlatform, screen: Screen) -> None:
        self._platform = platform
        self._screen = screen
        self._to_end: list[asyncio.Task[None]] = []

    async def run(self, *, ask: bool) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, self._platform.request, self._platform.roll_gateways)
        loop.add_signal_handler(signal.SIGUSR1, self._platform.request, self._platform.roll_workers)
        loop.add_signal_handler(signal.SIGUSR2, self._platform.request, self._platform.roll_runners)
        work = asyncio.create_task(self._work(ask=ask))
        self._to_end = [work]
        try:
            code = await self._outcome(work)
        finally:
            is_clean = await self._drain()
        return code if is_clean else 1

    async def _work(self, *, ask: bool) -> None:
        await self._platform.start()
        if ask:
            try:
                await self._platform.first_question()
            except CommandError as error:  # what runs is still worth looking at
                self._screen.error(error)
        await self._platform.watch()

    async def _outcome(self, work: asyncio.Task[None]) -> int:
        try:
            await work
        except asyncio.CancelledError:
            return 0
        except CommandError as error:
            self._screen.error(error)
            return 1
        return 0

    async def _drain(self) -> bool:
        self._screen.say("Draining: running answers may finish. A second Ctrl-C ends everything at once.")
        task = asyncio.create_task(self._platform.drain())
        self._to_end = [task]
        try:
            await task
        except asyncio.CancelledError:
            await self._platform.force()
            self._screen.say("Everything was ended at once.")
        except CommandError as error:
            self._screen.error(error)
            return False
        else:
            self._screen.say("Everything has ended in good order.")
        return True

    def _end(self) -> None:
        for task in self._to_end:
            task.cancel()
