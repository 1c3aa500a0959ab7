"""The gateways of one machine: as many processes as the controller says, on the socket that the supervisor holds.

A gateway that goes takes no more connections and ends after its last answer; the platform's own end alone bounds that
time.
"""

import asyncio
import itertools
from collections.abc import Callable

from penstock.domain.command_error import CommandError
from penstock.local import connections
from penstock.local.shutdown import PlatformParts
from penstock.settings import CALLERS_OWN, Settings
from penstock.supervision.supervisor import Supervisor

LOOK_S = 2.0
"""Seconds between two questions: a gateway starts in about as many, and its requests' rate is of ten."""
AGAIN_S = 30.0
"""Seconds before a gateway that did not start is tried again."""
WITHIN_S = 5.0


def wanted(settings: Settings) -> int | None:
    own = settings.model_copy(update=dict.fromkeys(CALLERS_OWN, ""))
    try:
        number: int | None = connections.operator(own, timeout_s=WITHIN_S).get("/scale")["gateways_wanted"]
    except CommandError:
        return None
    return number


class LocalGateways:
    def __init__(
        self,
        parts: PlatformParts,
        make: Callable[[int], Supervisor],
        wanted: Callable[[], int | None],
        report: Callable[[str], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._parts, self._make, self._wanted, self._report, self._look_s = parts, make, wanted, report, look_s
        self._ending: list[Supervisor] = []

    async def keep(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._look_s)
                number = await asyncio.to_thread(self._wanted)
                if number is not None:
                    await self._follow(number, group)

    async def _follow(self, number: int, group: asyncio.TaskGroup) -> None:
        serving = [one for one in self._parts.gateways if one not in self._ending]
        for one in serving[number:]:
            self._ending.append(one)
            group.create_task(self._end(one))
        if len(serving) < number:
            await asyncio.gather(*(self._start(group) for _ in range(number - len(serving))))

    async def _start(self, group: asyncio.TaskGroup) -> None:
        taken = {one.name for one in self._parts.gateways}
        made = next(one for one in map(self._make, itertools.count(1)) if one.name not in taken)
        self._parts.gateways.append(made)
        try:
            await made.start()
        except CommandError as error:
            self._parts.gateways.remove(made)
            self._report(f"{made.name} did not start: {error}")
            await asyncio.sleep(AGAIN_S)
            return
        group.create_task(made.watch())
        self._report(f"{made.name}: started, process {made.pid}")

    async def _end(self, one: Supervisor) -> None:
        self._report(f"{one.name}: takes no more connections, and ends after its last answer")
        await one.retire()
        self._ending.remove(one)
        self._parts.gateways.remove(one)
        self._report(f"{one.name}: ended")
