"""Drills: a fault is made, its alert fires, its runbook shows it, the mitigation heals it; each step is timed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from tests.support.monitoring import runbooks
from tests.support.monitoring.alarms import Alarms, hurried
from tests.support.monitoring.alert_rules import RULES
from tests.support.patience import until

FIRES_WITHIN_S = 90.0
HEALED_WITHIN_S = 120.0
PATIENCE_S = 100.0
"""A command that asks who does not answer takes a minute to say so."""
HEAD = ("alert", "times shorter", "fault to firing, s", "mitigation to healed, s")
Stage = TypeVar("Stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill(Generic[Stage]):
    """One alert's: how its fault is made on a stage, how it is mended, and what its runbook's commands then show.

    ``pace``: how many times shorter the rule's ``for`` and windows are than in the platform's own rules, and
    ``seconds``: which thresholds of it are seconds, too.
    """

    alert: str
    fault: Callable[[Stage], object]
    mend: Callable[[Stage], object]
    shows: tuple[str, ...] = ()
    pace: float = 1.0
    seconds: tuple[int, ...] = ()


@dataclass(kw_only=True)
class Log:
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def markdown(self) -> str:
        return "".join(f"| {' | '.join(row)} |\n" for row in (HEAD, ("---", "---:", "---:", "---:"), *self.rows))


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where a person sits: a folder in which ``.penstock`` is the platform's home, its environment, a Prometheus."""

    folder: Path
    environment: Mapping[str, str]
    alarms: Callable[[], Alarms]
    log: Log

    def run(self, line: str) -> str:
        """Run a line of a runbook as it stands there, and return what it prints."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**self.environment, "PATH": path}
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.stdout + done.stderr


def run(drill: Drill[Stage], stage: Stage, desk: Desk) -> None:
    """Run a drill from fault to health; what the fault hurt is mended in any case."""
    book, rule = runbooks.of(drill.alert), hurried(RULES[drill.alert], drill.pace, drill.seconds)
    desk.alarms().load(rule)
    assert not desk.alarms().fires(drill.alert)
    began = time.monotonic()
    try:
        drill.fault(stage)
        until(f"{drill.alert} fires", lambda: desk.alarms().fires(drill.alert), within_s=FIRES_WITHIN_S, every_s=0.2)
        fired_s = time.monotonic() - began
        told = "\n".join(desk.run(line) for line in book.shell("Diagnosis"))
        assert [word for word in drill.shows if word not in told] == [], told
        found = [desk.alarms().ask(query) for query in book.queries("Diagnosis")]
        assert any(found)
    finally:
        began = time.monotonic()
        drill.mend(stage)
    desk.alarms().load(rule)
    until(f"{drill.alert} is over", lambda: not desk.alarms().fires(drill.alert), within_s=HEALED_WITHIN_S, every_s=0.2)
    until("its runbook's last queries answer", lambda: all(map(desk.alarms().ask, book.queries("Verify"))), within_s=30)
    desk.log.rows.append((drill.alert, f"{drill.pace:g}", f"{fired_s:.1f}", f"{time.monotonic() - began:.1f}"))
