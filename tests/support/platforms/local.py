"""A whole real platform for integration tests: ``penstock up`` in a folder of its own, on a free port."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from penstock.cli.usage import rows_of
from penstock.clients.operator import Operator
from tests.support.patience import until
from tests.support.platforms import commands

READY_WITHIN_S = 240.0
STOP_WITHIN_S = 60.0
LOG_LINES = 25


@dataclass(kw_only=True)
class Platform:
    """One platform: its addresses, keys and processes, and ways to hurt it.

    ``settings`` are ``PENSTOCK_*`` names in lower case without the prefix.
    """

    home: Path
    models: str = "smollm2,minilm"
    workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start it and wait until every worker serves."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain it; leave no process behind, whatever happened."""
        if error is not None:
            sys.stdout.write(self.logs())
        self.stop()

    def launch(self) -> None:
        """Start ``penstock up`` without waiting for it."""
        self.home.mkdir(parents=True, exist_ok=True)
        with self.screen_file.open("ab") as screen:
            self.process = subprocess.Popen(
                [*self.penstock, "up", "--no-question"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )

    def start(self, *, within_s: float = READY_WITHIN_S) -> None:
        """Start ``penstock up`` and wait until every worker serves."""
        self.launch()
        try:
            until("the platform is ready", self._is_ready, within_s=within_s, every_s=0.2)
        except BaseException:
            sys.stdout.write(self.logs())
            self.kill_all()
            raise

    def stop(self, *, within_s: float = STOP_WITHIN_S) -> int:
        """Ask it to drain and end; return the exit code. What is left after that is killed."""
        process = self.process
        if process is None:
            return 0
        process.terminate()
        try:
            code = process.wait(within_s)
            if code:
                sys.stdout.write(self.logs())
            return code
        finally:
            self.kill_all()
            self.process = None

    def kill_all(self) -> None:
        """``kill -9`` of everything that runs in this home, supervisor first."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for process in self.survivors():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until("no process is left", lambda: not self.survivors(), within_s=10)

    def _is_ready(self) -> bool:
        process = self.process
        assert process is not None
        if process.poll() is not None:
            raise AssertionError(f"`penstock up` ended with code {process.returncode}")
        return self.state.get("pid") == process.pid and bool(self.state.get("ready"))

    # -- where things are ----------------------------------------------------------------------------

    @property
    def penstock(self) -> tuple[str, ...]:
        """Return the command line of ``penstock``."""
        return (sys.executable, "-m", "penstock.cli")

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that makes a command talk of this platform."""
        ours = {"home": str(self.home), "port": "0", "models": self.models, "workers": str(self.workers)}
        ours["job_runners"] = "0"  # one process fewer for each platform; tests of jobs set it
        named = {f"PENSTOCK_{name.upper()}": value for name, value in {**ours, **self.settings}.items()}
        return {**os.environ, "COLUMNS": "160", **named}

    @property
    def screen_file(self) -> Path:
        """Return the file that holds what ``penstock up`` printed."""
        return self.home / "screen.txt"

    @property
    def screen(self) -> str:
        """Return what ``penstock up`` printed so far."""
        return self.screen_file.read_text(errors="replace")

    @property
    def state(self) -> dict[str, object]:
        """Return what the supervisor says of itself."""
        try:
            found: dict[str, object] = json.loads((self.home / "run/up.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    @property
    def url(self) -> str:
        return (self.home / "run/gateway.addr").read_text().strip()

    @property
    def metrics_url(self) -> str:
        """Return the address of its first gateway's metrics."""
        pid = json.loads((self.home / "run/up.json").read_text())["processes"]["gateway 1"]
        return (self.home / f"run/metrics/{pid}").read_text().strip()

    @property
    def controller_url(self) -> str:
        return (self.home / "run/controller.addr").read_text().strip()

    @property
    def demo_key(self) -> str:
        return (self.home / "demo.key").read_text().strip()

    @property
    def admin_key(self) -> str:
        return (self.home / "admin.key").read_text().strip()

    # -- speaking to it -------------------------------------------------------------------------------

    @contextmanager
    def http(self, key: str | None = None, *, timeout_s: float = 60.0) -> Iterator[httpx.Client]:
        """Yield an HTTP client of the gateway with the demo key, or with another."""
        headers = {"authorization": f"Bearer {key if key is not None else self.demo_key}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False) as client:
            yield client

    def act(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  JSON
        """Call the operators' API, which takes no process as a command does, and return its answer."""
        head = {"authorization": f"Bearer {self.admin_key}"}
        url = f"{self.controller_url}/admin/v1{path}"
        answer = httpx.request(method, url, headers=head, json=body, timeout=30, trust_env=False)
        return answer.raise_for_status().json()

    def run(self, *arguments: str, check: bool = True, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a ``penstock`` command beside the platform."""
        done = commands.run(arguments, self.environment, within_s=within_s)
        if check and done.returncode != 0:
            raise AssertionError(f"penstock {' '.join(arguments)}: code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def usage(self, tenant: str) -> list[dict[str, str]]:
        """Return what the ledger holds of a tenant by now, in the words of its export."""
        rows = rows_of(Operator(self.controller_url, self.admin_key), tenant, 0.0, 0.0)
        return [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]

    # -- its processes -----------------------------------------------------------------------------------

    def pids(self, name: str) -> list[int]:
        """Return the process ids of ``gateway``, ``controller``, ``postgres``, ``worker`` or ``engine``."""
        if name == "worker":
            return sorted(worker.pid for worker in self._agents())
        if name == "engine":
            return sorted(pid for file in (self.home / "run/engines").glob("*.pid") for pid in _alive(file))
        processes = self.state.get("processes")
        assert isinstance(processes, dict)
        return [int(pid) for process, pid in processes.items() if process.partition(" ")[0] == name]

    def kill(self, name: str, sig: signal.Signals = signal.SIGKILL) -> list[int]:
        """Send a signal to all processes of this kind and return their ids."""
        pids = self.pids(name)
        assert pids, f"there is no {name} to kill"
        for pid in pids:
            os.kill(pid, sig)
        return pids

    @contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        """Freeze one process, and the supervisor, which would replace it."""
        assert self.process is not None
        pids = (self.process.pid, pid)
        for one in pids:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in reversed(pids):
                os.kill(one, signal.SIGCONT)

    def survivors(self) -> list[psutil.Process]:
        """Return every process that runs in this home."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                return False
            return process.environ().get("PENSTOCK_HOME") == str(self.home) or str(self.home) in " ".join(
                process.cmdline()
            )
        return False

    def _agents(self) -> Iterator[psutil.Process]:
        for file in (self.home / "run/workers").glob("*.json"):
            with suppress(psutil.NoSuchProcess, ValueError, OSError):
                yield psutil.Process(int(json.loads(file.read_text())["pid"]))

    # -- when a test fails ---------------------------------------------------------------------------------

    def logs(self) -> str:
        """Return the end of the screen and of every log."""
        files = [self.screen_file, *sorted((self.home / "logs").glob("*.log"))]
        return "\n".join(f"── {file.name}\n{_tail(file)}" for file in files)


def _tail(file: Path) -> str:
    with suppress(OSError):
        return "\n".join(file.read_text(errors="replace").splitlines()[-LOG_LINES:])
    return "(none)"


def _alive(file: Path) -> list[int]:
    """Return the process id in a file, if that process lives."""
    with suppress(OSError, ValueError):
        pid = int(file.read_text().split()[0])
        if psutil.pid_exists(pid):
            return [pid]
    return []
