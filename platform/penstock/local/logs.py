"""The logs of a home within their bounds: what `penstock up` and its controller start cuts no log itself.

One rule for all of them (`telemetry/log_files.py`); an engine's log is its agent's to cut, by the same rule.
"""

from pathlib import Path

from penstock.apps.settings import Home
from penstock.connectors.process import leftovers
from penstock.telemetry.log_files import ENGINE, LogBounds, prune, rotate

WORKER = "worker-"


def bound(home: Home, bounds: LogBounds) -> None:
    """Cut what has grown too large, and remove the oldest logs of workers that are gone."""
    for log in _cut_here(home.logs):
        rotate(log, bounds)
    alive = {str(record.worker) for record in leftovers.living(home.run)}
    prune(home.logs, WORKER, alive.__contains__, bounds)


def _cut_here(logs: Path) -> list[Path]:
    return [log for log in logs.glob("*.log") if not log.name.startswith(ENGINE)]
