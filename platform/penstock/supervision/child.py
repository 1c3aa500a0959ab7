"""One child process: started with its log, waited for, asked to end and then made to."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a process is started. ``environment`` is whole, not added to ours; ``fds`` are inherited.

    ``leads`` makes it lead a session of its own; without that it must make a group of its own by itself.
    """

    name: str
    argv: Sequence[str]
    log: Path
    environment: dict[str, str] = field(repr=False)
    fds: tuple[int, ...] = ()
    leads: bool = True


class Child:
    """A started process. Ctrl-C in the terminal reaches the supervisor alone: the process leads a group of its own."""

    def __init__(self, command: Command, process: asyncio.subprocess.Process) -> None:
        self.command = command
        self._process = process

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Return the exit code (negative: the signal), None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Return the exit code once it has ended."""
        return await self._process.wait()

    async def stop(self, grace_s: float) -> int:
        """Ask it to drain and end; kill it and its group when the grace is over."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        """End it and what it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


async def spawn(command: Command) -> Child:
    """Start the process with its output appended to its log."""
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
