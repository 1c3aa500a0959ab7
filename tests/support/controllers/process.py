"""A real controller process for tests, its workers as processes of ``workers/fake``, and a home around them."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.domain.ids import VersionId, WorkerId
from tests.support import tree

FAKE_WORKER = Path(__file__).parents[1] / "workers/fake.py"


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@dataclass(kw_only=True)
class ControlledHome:
    """A home with a platform key, in which controllers run."""

    root: Path
    database_url: str
    settings: dict[str, str] = field(default_factory=dict)
    controllers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def prepare(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "platform.key").write_text("ab" * 32)
        (self.root / "platform.key").chmod(0o600)

    def controller(self, **environment_too: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PENSTOCK_HOME": str(self.root),
            "PENSTOCK_DATABASE_URL": self.database_url,
            "PENSTOCK_TICK_S": "0.2",
            "PENSTOCK_CONTROLLER_PORT": str(free_port()),  # none finds its predecessor's free, so addresses tell apart
            **{f"PENSTOCK_{name.upper()}": value for name, value in self.settings.items()},
            **environment_too,
        }
        logs = self.root / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / "controller.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.controllers.process"],
                cwd=tree.ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.controllers.append(process)
        return process

    def address(self) -> str:
        """Return the leading controller's address, empty before there is one."""
        with suppress(FileNotFoundError):
            return (self.root / "run" / "controller.addr").read_text().strip()
        return ""

    def workers(self) -> dict[str, int]:
        """Return the recorded workers and their process ids."""
        found = {}
        for path in (self.root / "run" / "workers").glob("*.json"):
            with suppress(FileNotFoundError, ValueError):
                record = json.loads(path.read_text())
                found[record["worker"]] = record["pid"]
        return found

    def log(self) -> str:
        return (self.root / "logs" / "controller.log").read_text()

    def end(self) -> None:
        for process in self.controllers:
            process.kill()
            process.wait()
        for pid in self.workers().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def controlled_home(root: Path, database_url: str, **settings: str) -> Iterator[ControlledHome]:
    """Yield a prepared home, and leave no process behind."""
    home = ControlledHome(root=root, database_url=database_url, settings=settings)
    home.prepare()
    try:
        yield home
    finally:
        home.end()


def _fake(worker: WorkerId, version: VersionId) -> tuple[str, ...]:
    return (sys.executable, str(FAKE_WORKER), os.environ["PENSTOCK_HOME"], version, worker)


if __name__ == "__main__":
    from penstock.apps.controller import main
    from penstock.settings import load
    from tests.support.failures import wrong_clock

    wrong_clock.be_wrong()
    main(load(), _fake)
