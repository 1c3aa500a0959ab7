"""A pool of child processes for work that would block the event loop; threads would share its interpreter lock.

Work is ordered fairly between tenants. A slow or crashed child is replaced; only its present work is lost.
"""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from penstock.domain.errors import Overloaded
from penstock.fairness.turns import FairTurns
from penstock.lateness.awake import timeout

LENGTH_BYTES = 8


async def exchange(reader: StreamReader, writer: StreamWriter, pieces: Sequence[bytes]) -> bytes:
    """Send one frame and read one; ``EOFError`` if no answer arrives."""
    writer.write(sum(map(len, pieces)).to_bytes(LENGTH_BYTES, "big"))
    for piece in pieces:
        writer.write(piece)
    await writer.drain()
    return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


def serve(incoming: BinaryIO, outgoing: BinaryIO, answer: Callable[[bytes], Sequence[bytes]]) -> None:
    while len(length := incoming.read(LENGTH_BYTES)) == LENGTH_BYTES:
        pieces = answer(incoming.read(int.from_bytes(length, "big")))
        outgoing.write(sum(map(len, pieces)).to_bytes(LENGTH_BYTES, "big"))
        outgoing.writelines(pieces)
        outgoing.flush()


PIPE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Work:
    pieces: tuple[bytes, ...]
    done: "asyncio.Future[bytes]"


class OffloadPool:
    """Runs one task in each of at most ``processes`` children; after ``patience_s`` a task is abandoned, its child
    killed.
    """

    def __init__(self, program: Program, *, processes: int, patience_s: float) -> None:
        self._program = program
        self._patience_s = patience_s
        self._free = processes
        self._idle: list[Process] = []
        self._busy: set[asyncio.Task[None]] = set()
        self._turns: FairTurns[_Work] = FairTurns()

    async def ask(self, who: str, pieces: Sequence[bytes]) -> bytes:
        work = _Work(tuple(pieces), asyncio.get_running_loop().create_future())
        self._turns.put(who, sum(map(len, pieces)), work)
        self._go_on()
        return await work.done

    async def warm(self) -> None:
        if self._free and not self._idle:
            self._free -= 1
            try:
                self._idle.append(await self._started())
            finally:
                self._free += 1
            self._go_on()

    async def close(self) -> None:
        """End the children; running work is lost."""
        self._free = 0
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        for child in self._idle:
            await _ended(child)
        self._idle.clear()

    def _go_on(self) -> None:
        while self._free and self._turns:
            work = self._turns.take()
            if work.done.done():  # who asked has left
                continue
            self._free -= 1
            task = asyncio.create_task(self._do(work))
            self._busy.add(task)
            task.add_done_callback(self._freed)

    def _freed(self, task: "asyncio.Task[None]") -> None:
        self._busy.discard(task)
        if not task.cancelled():
            self._free += 1
            self._go_on()

    async def _do(self, work: _Work) -> None:
        child: Process | None = None
        try:
            child = self._idle.pop() if self._idle else await self._started()
            async with timeout(self._patience_s):
                answer = await _asked(child, work.pieces)
        except BaseException as error:  # whoever waits hears of it, and the child is no more to be trusted
            if child is not None:
                await _ended(child)
            _tell(work, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._idle.append(child)
            if not work.done.done():
                work.done.set_result(answer)

    async def _started(self) -> Process:
        program = self._program
        return await asyncio.create_subprocess_exec(
            *program.arguments, stdin=PIPE, stdout=PIPE, env=dict(program.environment), limit=PIPE_BYTES
        )


async def _asked(child: Process, pieces: Sequence[bytes]) -> bytes:
    assert child.stdin is not None  # noqa: S101  both are pipes
    assert child.stdout is not None  # noqa: S101
    return await exchange(child.stdout, child.stdin, pieces)


def _tell(work: _Work, error: BaseException) -> None:
    if work.done.done():
        return
    if isinstance(error, TimeoutError):
        error = Overloaded("this gateway is too busy to read the request", retry_after_s=1.0)
    elif isinstance(error, OSError):
        error = EOFError("a child process died of its work")
    work.done.set_exception(error if isinstance(error, Exception) else Overloaded(retry_after_s=1.0))


async def _ended(child: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    await child.wait()
