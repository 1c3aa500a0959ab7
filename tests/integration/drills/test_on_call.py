"""Six faults of a night on call with the platform's own rules: when each is seen, named, alerted on, and over.

It prints a table of seconds since the fault; the first figures, by hand, are in the decision record of restarts.
"""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.conftest import HomeMaker
from tests.support.monitoring.alarms import Alarms
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.scenarios.pressure import Caller, several, streams

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.drill, pytest.mark.timeout(900)]

PACE_S = 2.0
"""Between two questions of a caller in calm."""
GAP_S = 15.0
"""An alert that was not seen for so long has ended."""
GROUP = 60
"""Callers of a flood."""
REPORT = Path(__file__).parents[3] / "build/on-call.md"
HEAD = "| fault | seen in status, named by diagnose, s | served again, s | calls failed | alerts, s |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    began: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    platform: Platform
    callers: tuple[Caller, Caller]
    rows: list["Row"] = field(default_factory=list)
    fired: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By alert and severity: the first and last second of each time that it fired."""

    def watch(self, over: threading.Event, _: int) -> None:
        while not over.wait(1.0):
            self.look()

    def look(self) -> None:
        """Note which alerts fire now."""
        with suppress(httpx.HTTPError, OSError, AssertionError):
            for one in self.alarms.ask('ALERTS{alertstate="firing"}'):
                name, now = f"{one['metric']['alertname']} ({one['metric']['severity']})", time.monotonic()
                spans = self.fired.setdefault(name, [])
                if spans and now - spans[-1][1] < GAP_S:
                    spans[-1] = (spans[-1][0], now)
                else:
                    spans.append((now, now))

    def table(self) -> str:
        ends = [*(row.began for row in self.rows[1:]), float("inf")]
        lines = [HEAD, "|---|---|---|---|---|"]
        for row, end in zip(self.rows, ends, strict=True):
            fired = [
                f"{name} {first - row.began:.0f} to {last - row.began:.0f}"
                for name, spans in self.fired.items()
                for first, last in spans
                if row.began <= first < end
            ]
            lines.append(f"{row.told} {', '.join(fired) or 'none'} |")
        return "\n".join(lines) + "\n"

    @property
    def alarms(self) -> Alarms:
        return Alarms(
            url=(self.platform.home / "run/prometheus.addr").read_text().strip(),
            config=self.platform.home / "observe/prometheus.yml",
            pid=self.platform.pids("prometheus")[0],
        )

    def agent(self) -> psutil.Process:
        """Return the agent of the chat model."""
        (file,) = (self.platform.home / "run/workers").glob("smollm2*.json")
        pid = int(re.search(r'"pid": (\d+)', file.read_text())[1])  # type: ignore[index]
        return psutil.Process(pid)

    def engine(self) -> psutil.Process:
        (file,) = (self.platform.home / "run/engines").glob("smollm2*.pid")
        return psutil.Process(int(file.read_text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``begins`` makes it while its block runs. ``shows`` in status, ``named`` by diagnose, ``alert``: "" for none."""

    begins: Callable[[Night], "Block"]
    shows: str
    named: str = ""
    alert: str = ""
    lasts_s: float = 0.0
    costs: bool = True
    """Whether calls may fail."""


Block = ExitStack


def hung_core(night: Night) -> Block:
    """Stop the engine's core for good: its agent finds it."""
    for process in night.engine().children(recursive=True):
        process.send_signal(signal.SIGSTOP)
    return ExitStack()


def hung_agent(night: Night) -> Block:
    """Stop the agent for good: its controller finds it, and its engine serves until another does."""
    night.agent().send_signal(signal.SIGSTOP)
    return ExitStack()


def flooded(night: Night) -> Block:
    stack = ExitStack()
    stack.enter_context(streams(night.callers[0], GROUP, tokens=48))
    return stack


def spent(night: Night) -> Block:
    """Let a tenant come to the end of its budget."""
    night.platform.run("tenants", "plan", "acme", "spend_per_day=0.0001")
    stack = ExitStack()
    stack.callback(lambda: night.platform.run("tenants", "plan", "acme", "spend_per_day=1000"))
    return stack


def dying_database(night: Night) -> Block:
    for _ in range(3):
        (before,) = night.platform.pids("postgres")
        os.kill(before, signal.SIGKILL)
        until("another runs", lambda before=before: night.platform.pids("postgres") not in ([0], [before]))  # type: ignore[misc]
    return ExitStack()


def hung_database(night: Night) -> Block:
    (server,) = map(psutil.Process, night.platform.pids("postgres"))
    for process in (server, *server.children()):
        process.send_signal(signal.SIGSTOP)
    return ExitStack()


FAULTS = {
    "engine core stopped": Fault(begins=hung_core, shows="Circuit|Last lost", named="lost-worker|unhealthy-version"),
    "agent stopped": Fault(
        begins=hung_agent, shows="silent, was ready", named="lost-worker", lasts_s=75.0, costs=False
    ),
    "60 callers of one tenant": Fault(begins=flooded, shows="Loudest.*acme", named="engine-saturated", lasts_s=45.0),
    "budget spent": Fault(begins=spent, shows="BudgetNearlySpent", alert="BudgetNearlySpent", lasts_s=90.0),
    "Postgres killed three times": Fault(
        begins=dying_database, shows="postgres.*SIGKILL|postgres.*gone|ProcessRestarts", alert="ProcessRestarts"
    ),
    "Postgres stopped": Fault(begins=hung_database, shows="database|postgres.*did not answer"),
}


@dataclass(slots=True)
class Seen:
    """Seconds from the fault to each first and last sight."""

    began: float
    first: dict[str, float] = field(default_factory=dict)
    failed: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str) -> None:
        self.first.setdefault(what, time.monotonic() - self.began)


@pytest.fixture(scope="module")
def night(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Night]:
    settings = {**shared_settings, "observe": "true"}
    with Platform(home=new_home("night"), models="smollm2,minilm", settings=settings) as platform:
        keys = []
        for tenant in ("acme", "beta"):
            platform.run("tenants", "create", tenant)
            keys += re.findall(r"psk_\w+", platform.run("keys", "create", tenant).stdout)
        acme, beta = (Caller(url=platform.url, key=key) for key in keys)
        running = Night(platform=platform, callers=(acme, beta))
        until("callers are served", lambda: all(ask(one) == httpx.codes.OK for one in running.callers), within_s=60)
        with several(1, running.watch):
            yield running
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(running.table())
        print(running.table())  # noqa: T201


def ask(caller: Caller) -> int:
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    try:
        answer = httpx.post(
            f"{caller.url}/v1/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {caller.key}"},
            timeout=30,
            trust_env=False,
        )
    except httpx.HTTPError:
        return 0
    return answer.status_code


@contextmanager
def watched(night: Night, fault: Fault, seen: Seen) -> Iterator[None]:
    """Ask as two callers, look at status, diagnosis and alerts, until the block ends."""

    def look(_: threading.Event, number: int) -> None:
        while not seen.over.is_set():
            LOOKS[number](night, fault, seen)

    with several(len(LOOKS), look):
        try:
            yield
        finally:
            seen.over.set()


def _calls(night: Night, _: Fault, seen: Seen) -> None:
    for caller in night.callers:
        seen.failed += ask(caller) >= httpx.codes.INTERNAL_SERVER_ERROR
    seen.over.wait(PACE_S)


def _status(night: Night, fault: Fault, seen: Seen) -> None:
    if re.search(fault.shows, night.platform.run("status", check=False).stdout):
        seen.note("status")
    seen.over.wait(1.0)


def _diagnosis(night: Night, fault: Fault, seen: Seen) -> None:
    if fault.named and re.search(
        rf"(Bottleneck|Also found|Was found): ({fault.named})",
        night.platform.run("diagnose", "--window", "60s", check=False, within_s=120).stdout,
    ):
        seen.note("diagnose")
    seen.over.wait(3.0)


LOOKS = (_calls, _status, _diagnosis)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen_named_and_over(night: Night, name: str) -> None:
    """Status shows it, diagnose names it, its alert fires and ends; the rest is printed."""
    fault, seen = FAULTS[name], Seen(time.monotonic())
    with watched(night, fault, seen):
        with fault.begins(night):
            until("status shows it", lambda: "status" in seen.first, within_s=90)
            until("it is named", lambda: not fault.named or "diagnose" in seen.first, within_s=150)
            until("it is alerted on", lambda: fires(night, fault.alert, seen.began), within_s=240)
            time.sleep(max(0.0, fault.lasts_s - (time.monotonic() - seen.began)))
        until("all are served", lambda: ask(night.callers[1]) == httpx.codes.OK, within_s=120, every_s=1.0)
        served_s = time.monotonic() - seen.began
    assert fault.costs or not seen.failed
    shown = (
        f"{seen.first['status']:.0f}, {seen.first['diagnose']:.0f}" if fault.named else f"{seen.first['status']:.0f}"
    )
    told = f"| {name} | {shown} | {served_s:.0f} | {seen.failed} |"
    night.rows.append(Row(began=seen.began, told=told))


def fires(night: Night, alert: str, since: float) -> bool:
    """Tell whether this alert has begun to fire since then; True for none."""
    return not alert or any(
        first >= since for name, spans in night.fired.items() if name.startswith(alert) for first, _ in spans
    )


def test_no_page_outlives_the_night(night: Night) -> None:
    """Once all faults are over, pages end within minutes."""
    pages = 'ALERTS{alertstate="firing",severity="page"}'
    until("no page fires", lambda: not night.alarms.ask(pages), within_s=420, every_s=1.0)
