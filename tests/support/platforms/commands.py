"""``penstock`` commands in forks of one process that has imported what they use: a tenth of the work of a new one.

The modules of the command line itself are imported in the fork: what they read when they are imported is the command's.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

PREIMPORTED = (
    *("typer", "rich.console", "rich.table", "rich.markdown", "httpx", "pydantic_settings"),
    *("penstock.settings", "penstock.clients.operator", "penstock.local.connections", "penstock.views.tenants"),
)
MOST_BYTES = 1 << 16


def run(
    arguments: Sequence[str], environment: Mapping[str, str], *, within_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run ``penstock`` with these arguments and this environment, and nothing on its input."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked = json.dumps({"arguments": arguments, "environment": dict(environment)}).encode()
        with theirs, socket.socket(fileno=os.dup(_parent())) as parent:
            socket.send_fds(parent, [asked], [theirs.fileno(), out.fileno(), err.fileno()])
        mine.settimeout(within_s)
        try:
            code = int(mine.recv(MOST_BYTES))
        except TimeoutError as error:
            raise subprocess.TimeoutExpired(list(arguments), within_s) from error
        told = [(file.seek(0), file.read().decode(errors="replace"))[1] for file in (out, err)]
    return subprocess.CompletedProcess(["penstock", *arguments], code, *told)


_starting = threading.Lock()


def _parent() -> int:
    with _starting:
        return _started()


@cache
def _started() -> int:
    """Start the parent; it ends with this process, which holds the other end of its socket."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        os.posix_spawn(sys.executable, command, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return mine.detach()


def serve(control: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in PREIMPORTED:
        import_module(name)
    while True:
        asked, fds, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
        if not asked:
            return
        if os.fork() == 0:
            control.close()
            _attend(socket.socket(fileno=fds[0]), fds[1:], json.loads(asked))
        for fd in fds:
            os.close(fd)


def _attend(caller: socket.socket, files: list[int], asked: dict[str, object]) -> None:
    """Run the command in a child, tell the caller its exit code, and end it if the caller has left."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        caller.close()
        _become(files, **asked)  # type: ignore[arg-type]
    poller = select.poll()
    poller.register(os.pidfd_open(child), select.POLLIN)
    poller.register(caller, select.POLLIN)
    if caller.fileno() in dict(poller.poll()):
        os.kill(child, signal.SIGKILL)
    with suppress(BrokenPipeError):
        caller.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def _become(files: list[int], arguments: list[str], environment: dict[str, str]) -> None:
    with Path(os.devnull).open() as nothing:
        for target, fd in enumerate([nothing.fileno(), *files]):
            os.dup2(fd, target)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["__main__"].__package__, sys.argv = None, ["penstock", *arguments]
    code: object = 1
    try:
        import_module("penstock.cli").main()
    except SystemExit as ended:
        code = ended.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
