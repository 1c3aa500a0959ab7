"""Six faults of a night on call with the platform's own rules: when each is seen, named, alerted on, and over.

It prints a table of seconds since the fault; the first figures, by hand, are in the decision record of restarts.
"""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
GROUP = 60
"""Callers of a flood."""
QUIET_S = 5.0
"""What was seen and is seen no more for so long is over."""
Rows = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    platform: Platform
    callers: tuple[Caller, Caller]

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


Block = ExitStack


def hung_core(night: Night) -> Block:
    """Stop the engine's core for good: its agent finds it."""
    for process in night.engine().children(recursive=True):
        process.send_signal(signal.SIGSTOP)
    return ExitStack()


def hung_agent(night: Night) -> Block:
    """Stop the agent for good: its controller finds it."""
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
    "agent stopped": Fault(begins=hung_agent, shows="silent, was ready", named="lost-worker"),
    "60 callers of one tenant": Fault(begins=flooded, shows="Loudest.*acme", named="engine-saturated", lasts_s=45.0),
    "budget spent": Fault(begins=spent, shows="BudgetNearlySpent", alert="BudgetNearlySpent", lasts_s=90.0),
    "Postgres killed three times": Fault(
        begins=dying_database, shows="postgres.*SIGKILL|postgres.*gone|ProcessRestarts", alert="ProcessRestarts"
    ),
    "Postgres stopped": Fault(begins=hung_database, shows="database", alert="DatabaseAway"),
}


@dataclass(slots=True)
class Seen:
    """Seconds from the fault to each first and last sight."""

    began: float
    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    failed: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str) -> None:
        now = time.monotonic() - self.began
        self.first.setdefault(what, now)
        self.last[what] = now


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
        yield running


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
    seen.over.wait(0.5)


def _diagnosis(night: Night, fault: Fault, seen: Seen) -> None:
    if fault.named and re.search(
        rf"(Bottleneck|Also found): ({fault.named})",
        night.platform.run("diagnose", "--window", "60s", check=False, within_s=120).stdout,
    ):
        seen.note("diagnose")
    seen.over.wait(2.0)


def _alerts(night: Night, fault: Fault, seen: Seen) -> None:
    try:
        firing = night.alarms.ask('ALERTS{alertstate="firing"}')
    except (httpx.HTTPError, OSError):
        firing = []
    for one in firing:
        seen.note(one["metric"]["alertname"])
    seen.over.wait(1.0)


LOOKS = (_calls, _status, _diagnosis, _alerts)


def told(fault: Fault, seen: Seen) -> str:
    shown = [f"{what} {seconds:.0f} s" for what, seconds in seen.first.items() if what in ("status", "diagnose")]
    alerts = [f"{what} {seen.first[what]:.0f} to {seen.last[what]:.0f} s" for what in seen.first if what[0].isupper()]
    return f"{', '.join(shown)} | {', '.join(alerts) or 'no alert'} | {seen.failed} calls failed"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen_named_and_over(night: Night, name: str) -> None:
    """Status shows it, diagnose names it, its alert fires and ends; the rest is printed."""
    fault, seen = FAULTS[name], Seen(time.monotonic())
    with watched(night, fault, seen):
        with fault.begins(night):
            until("status shows it", lambda: "status" in seen.first, within_s=90)
            until("it is named", lambda: not fault.named or "diagnose" in seen.first, within_s=150)
            until("it is alerted on", lambda: not fault.alert or fault.alert in seen.first, within_s=240)
            time.sleep(max(0.0, fault.lasts_s - (time.monotonic() - seen.began)))
        until("all are served", lambda: ask(night.callers[1]) == httpx.codes.OK, within_s=120, every_s=1.0)
        served_s = time.monotonic() - seen.began
        pages = ("AvailabilityBurn", fault.alert)
        until(
            "no page fires", lambda: not any(night.alarms.fires(one) for one in pages if one), within_s=420, every_s=1.0
        )
        over_s = time.monotonic() - seen.began
    line = f"| {name} | {told(fault, seen)} | served {served_s:.0f} s, no page {over_s:.0f} s |"
    print(line)  # noqa: T201
    report = Path(__file__).parents[3] / "build/on-call.md"
    report.parent.mkdir(exist_ok=True)
    with report.open("a") as file:
        file.write(line + "\n")
