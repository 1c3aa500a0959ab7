"""Drills: a fault is made, its alert fires, its runbook shows it, the mitigation heals it; each step is timed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.support.monitoring import runbooks
from tests.support.monitoring.alarms import Alarms, hurried, hurried_query
from tests.support.monitoring.alert_rules import RULES
from tests.support.patience import until

FIRES_WITHIN_S = 90.0
HEALED_WITHIN_S = 120.0
PATIENCE_S = 100.0
"""A command that asks who does not answer takes a minute to say so."""
DECADE_S = 315_360_000.0
HEAD = ("alert", "times shorter", "fault to firing, s", "mitigation to healed, s")
Stage = TypeVar("Stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill(Generic[Stage]):
    """One alert's: how its fault is made on a stage, how it is mended, and what its runbook's commands then show.

    ``silent``: its commands and queries for other faults with the same alert, which have nothing to show in this one;
    None while nobody has gone through them.
    ``fails``: its commands that end with an error meanwhile.
    ``pace``: how many times shorter the rule's ``for`` and windows are than in the platform's own rules, and
    ``seconds``: which thresholds of it are seconds, too.
    """

    alert: str
    fault: Callable[[Stage], object]
    mend: Callable[[Stage], object]
    shows: tuple[str, ...] = ()
    silent: tuple[str, ...] | None = None
    fails: tuple[str, ...] = ()
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

    def run(self, line: str) -> "Ran":
        """Run a line of a runbook as it stands there."""
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
        return Ran(line=line, printed=done.stdout, told=done.stdout + done.stderr, code=done.returncode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A runbook's line that was run: its output, that with the errors, its exit code."""

    line: str
    printed: str
    told: str
    code: int


def _is_absurd(query: str, samples: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a query that asks for no moment shows one: 1.8e9 seconds behind is a clock, and no delay."""
    values = [abs(float(sample["value"][1])) for sample in samples]
    return bool(values) and max(values) > DECADE_S and not query.endswith("_timestamp_seconds")


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
        ran = [desk.run(line) for line in book.shell("Diagnosis")]
        told = "\n".join(one.told for one in ran)
        sys.stdout.write(told)
        assert [word for word in drill.shows if word not in told] == []
        found = {
            query: desk.alarms().ask(hurried_query(query, drill.pace, drill.seconds))
            for query in book.queries("Diagnosis")
        }
        assert any(found.values())
        assert {query: found[query] for query in found if _is_absurd(query, found[query])} == {}
        if drill.silent is not None:
            assert {one.line for one in ran if one.code} == set(drill.fails)
            empty = {one.line for one in ran if not one.printed.strip()} | {one for one in found if not found[one]}
            assert empty - {*drill.silent, *drill.fails} == set()
    finally:
        began = time.monotonic()
        drill.mend(stage)
    desk.alarms().load(rule)
    until(f"{drill.alert} is over", lambda: not desk.alarms().fires(drill.alert), within_s=HEALED_WITHIN_S, every_s=0.2)
    until("its runbook's last queries answer", lambda: all(map(desk.alarms().ask, book.queries("Verify"))), within_s=30)
    over = [desk.run(line) for line in book.shell("Verify")]
    assert [(one.line, one.told) for one in over if one.code] == []
    desk.log.rows.append((drill.alert, f"{drill.pace:g}", f"{fired_s:.1f}", f"{time.monotonic() - began:.1f}"))
