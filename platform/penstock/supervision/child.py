"""One child process: start with a log, wait, stop gracefully, then kill."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.lateness.awake import timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``environment`` replaces the supervisor's; ``fds`` are inherited by the process."""

    name: str
    argv: Sequence[str]
    log: Path
    environment: dict[str, str] = field(repr=False)
    fds: tuple[int, ...] = ()
    leads: bool = True


class Child:
    """A process in its own group, so that Ctrl-C reaches the supervisor alone."""

    def __init__(self, command: Command, process: asyncio.subprocess.Process) -> None:
        self.command = command
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    async def retire(self) -> int:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR2)
        return await self.wait()

    async def stop(self, grace_s: float) -> int:
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with timeout(grace_s):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


async def spawn(command: Command) -> Child:
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=command.environment,
            pass_fds=command.fds,
            start_new_session=command.leads,
        )
    return Child(command, process)
