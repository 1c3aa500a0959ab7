"""The Locust file: one user that plays a plan, each session in a greenlet of its own, at its own time (ADR 0067).

Importing Locust patches the standard library of its process, so only a process of its own loads this file:
``loadtests.drive.process`` starts it, or ``locust -f loadtests/drive/locustfile.py --run-folder FOLDER``.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import gevent
import msgspec
from gevent.pool import Group
from locust import User, events, task
from locust.argument_parser import LocustArgumentParser

from loadtests.drive.caller import Caller, body_of
from loadtests.drive.process import KEYS_VARIABLE
from loadtests.drive.records import End, Health, Record
from loadtests.drive.run import RunFolder
from loadtests.plan.planning import Session, Turn

START_IN_S = 1.0
PULSE_S = 0.05
COMES_BACK_S = 1.0
"""How long who is refused waits, where nobody says."""
METRICS_AT_ONCE = 20
"""So many are told to Locust before others have their turn."""


@events.init_command_line_parser.add_listener
def _arguments(parser: LocustArgumentParser) -> None:
    parser.add_argument("--run-folder", required=True, help="made by python -m loadtests")


class Unanswered(Exception):
    """A request ended without its whole answer."""


class Plan(User):
    """The plan as Locust's one user; its callers are greenlets."""

    fixed_count = 1

    @task
    def play(self) -> None:
        folder = RunFolder(Path(self.environment.parsed_options.run_folder))
        with folder.records_file.open("w", buffering=1) as out:
            folder.keep_health(Player(folder, self.environment.events.request.fire, out).play())
        self.environment.runner.quit()


class Player:
    """Sends what is planned when it is planned, whatever is still unanswered."""

    def __init__(self, folder: RunFolder, fire: Callable[..., None], out: TextIO) -> None:
        """Read run and plan; ``fire`` tells Locust of a metric."""
        self._run, self._plan = folder.run(), list(folder.plan())
        self._fire, self._out = fire, out
        self._began = time.monotonic() + START_IN_S
        self._health = Health(sessions=len(self._plan), began_at=self._began, pulses=[])
        self._caller = Caller(self._run, json.loads(os.environ.get(KEYS_VARIABLE, "{}")), self._now, gevent.sleep)

    def play(self) -> Health:
        """Return how the generator did, once every session has ended."""
        pulse, sessions = gevent.spawn(self._pulse), Group()
        for session in self._plan:
            asked = body_of(session.turns[0], self._run.tiers[session.tenant], self._run)
            gevent.sleep(max(0.0, session.at_s - self._now()))
            sessions.spawn(self._hold, session, asked)
        sessions.join()
        pulse.kill()
        self._caller.close()
        return self._health

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _pulse(self) -> None:
        """Note how late this process is for what it wants to do next."""
        while True:
            due = self._now() + PULSE_S
            gevent.sleep(PULSE_S)
            self._health.pulses.append((round(due, 3), round(self._now() - due, 6)))

    def _hold(self, session: Session, asked: tuple[str, bytes]) -> None:
        """Ask turn after turn, until one is not answered or the run is over."""
        planned_at = session.at_s
        for number, turn in enumerate(session.turns):
            if number:
                gevent.sleep(turn.think_s)
                asked, planned_at = body_of(turn, self._run.tiers[session.tenant], self._run), self._now()
            if planned_at >= self._run.duration_s:
                break
            record = self._caller.ask(turn, _record(session, turn, planned_at, is_first=not number), *asked)
            self._out.write(msgspec.json.encode(record).decode() + "\n")
            self._tell(record)
            if record.end is not End.WHOLE and not session.goes_on:
                break
            if record.end is End.REFUSED:
                gevent.sleep(record.retry_after_s or COMES_BACK_S)
        self._health.held += 1

    def _tell(self, record: Record) -> None:
        failed = record.end not in (End.WHOLE, End.LEFT)
        why = Unanswered(f"{record.end} {record.status} {record.code}") if failed else None
        self._metric("completion", record, record.whole_s, why)
        if record.ttft_s is not None:
            self._metric("TTFT", record, record.ttft_s)
        for number, gap_s in enumerate(record.gaps_s, start=1):
            self._metric("ITL", record, gap_s)
            if not number % METRICS_AT_ONCE:
                gevent.sleep(0)

    def _metric(self, kind: str, record: Record, seconds: float, why: Exception | None = None) -> None:
        self._fire(
            request_type=kind,
            name=record.tenant,
            response_time=1e3 * seconds,
            response_length=record.output_tokens or 0,
            exception=why,
            context={},
        )


def _record(session: Session, turn: Turn, planned_at: float, *, is_first: bool) -> Record:
    return Record(
        tenant=session.tenant,
        planned_at=planned_at,
        began_at=planned_at,
        is_first=is_first,
        unary=turn.unary,
        slow=turn.slow,
        planned_tokens=turn.output_tokens,
    )
