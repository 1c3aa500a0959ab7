"""Starts engine processes, from scratch or forked from a pre-imported parent, and waits for their end.

An engine is a process group of its own and dies with its agent (``lifeline``).
"""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.lateness.awake import timeout
from penstock.worker.engines import lifeline, plan
from penstock.worker.engines.lifeline import short
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.vllm import at_exec

_POLL_S = 0.05
_GONE_WITHIN_S = 1.0


class CannotFork(PenstockError):
    """The pre-imported parent can't be used; engines are started in a new process."""


class EngineProcess:
    def __init__(self, pid: int, exit_code: Callable[[], int | None], hold: int) -> None:
        self.pid = pid
        self.awaited_s = 0.0
        """How long its start waited for the imports of the parent that it was forked from."""
        self._hold = hold
        self._exit_code = exit_code
        self._ended = asyncio.Event()
        self._watch()

    async def wait(self) -> int | None:
        """The exit code (negative: the signal), if known."""
        await self._ended.wait()
        await asyncio.sleep(0)
        return self._exit_code()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def send(self, number: signal.Signals) -> None:
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, grace_s: float) -> int | None:
        self.send(signal.SIGTERM)
        with suppress(TimeoutError):
            async with timeout(grace_s):
                await self._ended.wait()
        return await self.end()

    async def end(self) -> int | None:
        self.kill()
        code = await self.wait()
        await self._until_gone()
        self.close()
        return code

    async def _until_gone(self) -> None:
        """Wait until the port is free, even if the dead process is not reaped."""
        with suppress(TimeoutError, ProcessLookupError):
            async with timeout(_GONE_WITHIN_S):
                while True:
                    os.killpg(self.pid, 0)
                    await asyncio.sleep(_POLL_S / 5)

    def close(self) -> None:
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def _watch(self) -> None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._ended.set()
            return
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            self._ended.set()

        loop.add_reader(pidfd, ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFiles:
    plan: Path
    log: Path
    pid: Path


class Launcher(Protocol):
    @property
    def is_warm(self) -> bool: ...

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawning:
    @property
    def is_warm(self) -> bool:
        return False

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess:
        plan.write(launch, files.plan)
        end, hold = lifeline.make()
        with files.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - a fork of a small process; nothing is waited for
                [sys.executable, "-m", "penstock.worker.engines.launch", str(files.plan), str(end)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=at_exec(os.environ),  # noqa: TID251 - handed on; nothing is read here
                pass_fds=[end],
                start_new_session=True,
            )
        os.close(end)
        return EngineProcess(process.pid, process.wait, hold)


def zygote_argv(address: Path, lifeline_fd: int, compiled: str) -> tuple[str, ...]:
    options = ("--lifeline", str(lifeline_fd), "--compiled", compiled)
    return (sys.executable, "-m", "penstock.worker.engines.zygote", str(address), *options)


@dataclass(slots=True, kw_only=True)
class Forking:
    """Forks engines; with ``own`` it also starts the pre-imported parent at ``address``."""

    address: Path
    own: bool
    log: Path
    compiled: str = ""
    patience_s: float = 40.0
    _parent: subprocess.Popen[bytes] | None = None
    _hold: int = -1

    @property
    def is_warm(self) -> bool:
        return not self.own and self.address.exists()

    def prepare(self) -> None:
        if not self.own or (self._parent is not None and self._parent.poll() is None):
            return
        self.close()
        end, self._hold = lifeline.make()
        with self.log.open("ab") as file:
            self._parent = subprocess.Popen(
                zygote_argv(self.address, end, self.compiled),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=at_exec(os.environ),  # noqa: TID251 - handed on; nothing is read here
                pass_fds=[end],
            )
        os.close(end)

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess:
        self.prepare()
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        agent = await self._connect()
        awaited_s = loop.time() - asked_at
        plan.write(launch, files.plan)
        end, hold = lifeline.make()
        try:
            with files.log.open("ab") as log:
                socket.send_fds(agent, [bytes(files.plan)], [log.fileno(), end])
            answer = await _receive(agent)
            pid = int(str(answer["pid"]))
        except (OSError, KeyError, ValueError) as error:
            agent.close()
            os.close(hold)
            raise CannotFork from error
        finally:
            os.close(end)
        engine = EngineProcess(pid, _Verdict(agent).exit_code, hold)
        engine.awaited_s = awaited_s
        return engine

    def close(self) -> None:
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1
        if self._parent is not None:
            self._parent.wait()
            self._parent = None
            self.address.unlink(missing_ok=True)

    async def _connect(self) -> socket.socket:
        with suppress(TimeoutError):
            async with timeout(self.patience_s):
                while self._parent is None or self._parent.poll() is None:
                    agent = self._try()
                    if agent is not None:
                        return agent
                    await asyncio.sleep(_POLL_S)
        raise CannotFork

    def _try(self) -> socket.socket | None:
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent.settimeout(0)
        try:
            with short(self.address) as address:
                agent.connect(address)
        except OSError as error:
            agent.close()
            if isinstance(error, ConnectionRefusedError) and not self.own:
                raise CannotFork from error  # a shared parent listens from the moment its address exists: it is dead
            return None
        return agent


@dataclass(slots=True)
class _Verdict:
    agent: socket.socket
    _code: int | None = field(default=None)
    _asked: bool = field(default=False)

    def exit_code(self) -> int | None:
        """Read the pre-imported parent's report.

        Wait shortly for it: parent and agent notice the end at the same time.
        """
        if not self._asked:
            self._asked = True
            with suppress(OSError, ValueError, KeyError):
                if select.select([self.agent], [], [], 0.5)[0]:
                    self._code = int(json.loads(self.agent.recv(4096))["exit_code"])
            self.agent.close()
        return self._code


@dataclass(frozen=True, slots=True, kw_only=True)
class Quickest:
    """Forks if possible, else starts a new process; ``on_fallback`` gets the reason."""

    forking: Forking
    spawning: Spawning
    on_fallback: Callable[[str], None]

    @property
    def is_warm(self) -> bool:
        return self.forking.is_warm

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess:
        if launch.forkable:
            try:
                return await self.forking.start(launch, files)
            except CannotFork as error:
                self.on_fallback(error.message)
        return await self.spawning.start(launch, files)


async def _receive(agent: socket.socket) -> dict[str, object]:
    async with timeout(5.0):
        raw = await asyncio.get_running_loop().sock_recv(agent, 4096)
    answer: dict[str, object] = json.loads(raw) if raw else {}
    return answer
