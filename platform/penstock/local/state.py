"""The supervisor's state in ``run/up.json``, and the resources of its processes. It is for display only."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.connectors.process import leftovers
from penstock.lateness import activity
from penstock.supervision import exposition, lock
from penstock.supervision.files import write_private

FILE = "up.json"
ENGINES = "engines"
"""The folder of the agents' files of their engines."""


@dataclass(slots=True, kw_only=True)
class UpState:
    pid: int
    url: str = ""
    phase: str = ""
    ready: bool = False
    processes: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, dict[str, object]] = field(default_factory=dict)
    """By process: the number of its restarts, the Unix second of the last one, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProcess:
    """Memory in MB and CPU time in seconds, as texts, and the address of its metrics."""

    name: str
    pid: int
    memory: str
    cpu: str
    metrics: str
    restarts: str = ""


def write(run: Path, state: UpState) -> None:
    write_private(run / FILE, json.dumps(asdict(state)))


def read(run: Path) -> UpState | None:
    try:
        return UpState(**json.loads((run / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def unread_settings(run: Path, file: Path) -> str:
    """Return a note if the settings file was changed after the platform that runs here read it, else nothing."""
    try:
        is_newer = file.stat().st_mtime > (run / lock.FILE).stat().st_mtime
    except OSError:
        return ""
    if not is_newer or not lock.holder(run):
        return ""
    return (
        f"{file.name} was changed after `penstock up` had read it: `penstock down` and `penstock up` put it in force."
    )


def processes(run: Path) -> list[LocalProcess]:
    found = read(run)
    named = {"supervisor": found.pid, **found.processes} if found else {}
    restarts = found.restarts if found else {}
    own = [_process(run, name, pid, _restarts(restarts.get(name))) for name, pid in named.items() if pid]
    workers = [(one.worker, one.pid) for one in leftovers.living(run)]
    engines = [(worker, _engine(run, worker)) for worker, _ in workers]
    of_workers = [("worker", *one) for one in workers] + [("engine", *one) for one in engines]
    return [*own, *(_process(run, f"{what} {worker}", pid, "") for what, worker, pid in of_workers if pid)]


def _engine(run: Path, worker: str) -> int:
    try:
        return int((run / ENGINES / f"{worker}.pid").read_text())
    except (OSError, ValueError):
        return 0


def _restarts(found: dict[str, object] | None) -> str:
    if not found:
        return ""
    at = time.strftime("%H:%M:%S", time.gmtime(float(str(found["at"]))))
    return f"{found['count']}, the last at {at}: {found['why']}"


def _process(run: Path, name: str, pid: int, restarts: str) -> LocalProcess:
    try:
        resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        memory, cpu = "gone", ""
    else:
        memory = f"{resident_pages * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f}"
        cpu = f"{activity.ran_s(pid):.1f}"
    return LocalProcess(
        name=name, pid=pid, memory=memory, cpu=cpu, metrics=exposition.address(run, pid), restarts=restarts
    )
