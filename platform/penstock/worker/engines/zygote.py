"""A parent with vLLM imported that forks engines on request: 3 s to a served token instead of 15.

``python -m penstock.worker.engines.zygote SOCKET`` serves the agents of one user.

Forking is safe since a single thread runs, checked before each fork; on refusal the agent starts from scratch. CPU
only: a device context does not survive a fork.
"""

import argparse
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.worker.engines import compiled, launch, lifeline, plan
from penstock.worker.engines.lifeline import short
from penstock.worker.engines.vllm import GATE_MODULE, Place, environment, threads_for

PREIMPORTED = (
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.entrypoints.openai.chat_completion.serving",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.models.bert",
    "xgrammar",
    GATE_MODULE,
)
MAX_REQUEST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    plan: Path
    log_fd: int
    lifeline_fd: int


@dataclass(slots=True)
class Parent:
    listener: socket.socket
    pid: int = field(default_factory=os.getpid)
    poller: select.poll = field(default_factory=select.poll)
    agents: dict[int, socket.socket] = field(default_factory=dict)
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    """By pidfd: the engine's pid and the connection of its agent."""

    def serve(self) -> Child:
        """Fork engines on request; return only in the forked child."""
        self.poller.register(self.listener, select.POLLIN)
        while True:
            for fd, _ in self.poller.poll():
                child = self._handle(fd)
                if child is not None:
                    return child

    def _handle(self, fd: int) -> Child | None:
        if fd == self.listener.fileno():
            self._accept()
        elif fd in self.children:
            self._reap(fd)
        elif fd in self.agents:
            return self._serve_agent(self.agents[fd])
        return None

    def _accept(self) -> None:
        agent, _ = self.listener.accept()
        agent.settimeout(0)
        self.agents[agent.fileno()] = agent
        self.poller.register(agent, select.POLLIN)

    def _serve_agent(self, agent: socket.socket) -> Child | None:
        try:
            request, fds, _, _ = socket.recv_fds(agent, MAX_REQUEST_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except OSError:
            request, fds = b"", []
        if not request or len(fds) != 2:  # noqa: PLR2004 - log and lifeline
            self._disconnect(agent, fds)
            return None
        try:
            return self._fork(agent, Child(plan=Path(request.decode()), log_fd=fds[0], lifeline_fd=fds[1]))
        finally:
            if os.getpid() == self.pid:
                _close(fds)

    def _fork(self, agent: socket.socket, child: Child) -> Child | None:
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads != 1:
            _send(agent, {"refused": f"the pre-imported parent has {threads} threads"})
            return None
        pid = os.fork()
        if pid == 0:
            self._become_child()
            return child
        pidfd = os.pidfd_open(pid)
        self.children[pidfd] = (pid, agent)
        self.poller.register(pidfd, select.POLLIN)
        _send(agent, {"pid": pid})
        return None

    def _become_child(self) -> None:
        os.setsid()
        self.listener.close()
        for agent in self.agents.values():
            agent.close()
        _close(self.children)

    def _reap(self, pidfd: int) -> None:
        pid, agent = self.children.pop(pidfd)
        self.poller.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        _send(agent, {"exit_code": os.waitstatus_to_exitcode(status)})

    def _disconnect(self, agent: socket.socket, fds: list[int]) -> None:
        _close(fds)
        self.poller.unregister(agent)
        del self.agents[agent.fileno()]
        agent.close()


def listen(path: Path) -> socket.socket:
    """Listen for this user alone; the path appears atomically."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    old_umask = os.umask(0o177)
    try:
        with short(new) as address:
            listener.bind(address)
    finally:
        os.umask(old_umask)
    listener.listen(64)
    new.rename(path)
    return listener


def _send(agent: socket.socket, message: dict[str, object]) -> None:
    with suppress(OSError):  # the agent is gone, and its engine with it
        agent.send(json.dumps(message).encode())


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _let_engine_core_fork() -> None:
    """VLLM's CPU override forbids forking the core from the API server."""
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config

    def check_and_fork(_: type, config: object) -> None:
        check(config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"  # noqa: TID251 - vLLM's own setting, written back

    CpuPlatform.check_and_update_config = classmethod(check_and_fork)


def _register_models() -> None:
    """Given only names, vLLM would import itself again to inspect each."""
    from vllm.model_executor.models import ModelRegistry

    for architecture, known in list(ModelRegistry.models.items()):
        if getattr(known, "module_name", "") in PREIMPORTED:
            ModelRegistry.register_model(architecture, known.load_model_cls())


def _import_everything(threads: int, folder: str) -> None:
    os.environ.update(environment(Place(host="", port=0, threads=threads, compiled=folder)))  # noqa: TID251 - as in `launch`
    gc.disable()  # looking for cycles in what imports leave would take a fifth of their time
    for name in PREIMPORTED:
        importlib.import_module(name)
    _register_models()
    _let_engine_core_fork()
    gc.collect()
    gc.freeze()
    gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(prog="zygote")
    parser.add_argument("socket", type=Path)
    parser.add_argument("--lifeline", type=int, default=-1, help="file descriptor of a pipe; its end ends this process")
    parser.add_argument("--threads", type=int, default=threads_for(len(os.sched_getaffinity(0))))
    parser.add_argument("--compiled", default="", help="folder of what engines compile")
    options = parser.parse_args()
    if options.lifeline >= 0:
        os.setpgid(0, 0)
        lifeline.die_with(options.lifeline)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if options.compiled:
        compiled.own(Path(options.compiled))
    _import_everything(options.threads, options.compiled)
    child = Parent(listener=listen(options.socket)).serve()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(child.log_fd, 1)
    os.dup2(child.log_fd, 2)
    launch.run(plan.read(child.plan), child.lifeline_fd)


if __name__ == "__main__":
    main()
