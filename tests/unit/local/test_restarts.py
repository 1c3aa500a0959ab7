"""Restarts of processes leave a count, a line in the log, and a time in the state."""

import io
import json
from pathlib import Path

from penstock.local.restarts import Restarts
from penstock.supervision.restarts import Cause, Restart
from penstock.telemetry import logs
from tests.support.clock import ManualClock


def test_three_deaths_leave_count_log_and_time(tmp_path: Path, clock: ManualClock) -> None:
    """Each restart is counted by its cause; the state has the number and the last one's time and cause."""
    restarts = Restarts(clock)
    log = restarts.log_to(tmp_path)
    restarts.expect("postgres")
    assert 'penstock_restarts_total{process="postgres",reason="hung"} 0.0' in restarts.metrics.exposition().decode()
    for cause in (Cause.DIED, Cause.DIED, Cause.HUNG):
        clock.advance(12.0)
        restarts.note(Restart(process="postgres", cause=cause, why="is gone"))
    log.close()
    logs.configure("supervisor", stream=io.StringIO())
    page = restarts.metrics.exposition().decode()
    assert 'penstock_restarts_total{process="postgres",reason="died"} 2.0' in page
    assert 'penstock_restarts_total{process="postgres",reason="hung"} 1.0' in page
    assert restarts.plain() == {"postgres": {"count": 3, "at": clock.now(), "why": "is gone"}}
    lines = [json.loads(line) for line in (tmp_path / "supervisor.log").read_text().splitlines()]
    assert [(line["event"], line["object"], line["reason"]) for line in lines] == [
        ("process_restarted", "postgres", "died"),
        ("process_restarted", "postgres", "died"),
        ("process_restarted", "postgres", "hung"),
    ]
