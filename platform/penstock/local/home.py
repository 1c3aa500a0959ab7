"""The home folder: made private, with the platform's only secret, and its logs bounded.

All logs of `penstock up` and its controller are truncated by one rule (`telemetry/log_files.py`); an agent truncates
its engine's.
"""

import secrets
from pathlib import Path

from penstock.connectors.process import leftovers
from penstock.settings.told import Home
from penstock.supervision.files import unwritable, write_private
from penstock.telemetry.log_files import ENGINE, LogBounds, prune, rotate

PLATFORM_KEY_BYTES = 32
WORKER = "worker-"


def prepare(home: Home) -> bool:
    try:
        home.root.mkdir(parents=True, exist_ok=True)
        for folder in (home.run, home.logs, home.spool, home.artifacts, home.cache):
            folder.mkdir(exist_ok=True, mode=0o700)
        for folder in (home.run, home.logs, home.spool):  # of a home that an earlier version made
            folder.chmod(0o700)
        is_new = not home.platform_key.exists()
        if is_new:
            write_private(home.platform_key, secrets.token_hex(PLATFORM_KEY_BYTES))
    except OSError as error:
        raise unwritable(home.root, error) from error
    return is_new


def bound_logs(home: Home, bounds: LogBounds) -> None:
    for log in _cut_here(home.logs):
        rotate(log, bounds)
    alive = {str(record.worker) for record in leftovers.living(home.run)}
    prune(home.logs, WORKER, alive.__contains__, bounds)


def _cut_here(logs: Path) -> list[Path]:
    return [log for log in logs.glob("*.log") if not log.name.startswith(ENGINE)]
