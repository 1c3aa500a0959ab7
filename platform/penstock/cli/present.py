"""The present state that `penstock status` shows first, from processes' pages and Prometheus, without the database."""

import json
from collections.abc import Iterator, Sequence
from math import inf

from penstock.apps import observed
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.page import Page, Reading, everywhere, read
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local import observing, state
from penstock.local.state import LocalProcess
from penstock.settings import Settings
from penstock.telemetry import names
from penstock.telemetry.definitions import Label
from penstock.telemetry.series import INSTANCE
from penstock.views import status as views
from penstock.views.elements import Listing, listing

LOST = ("worker_died", "worker_killed", "worker_tries_again", "worker_failed")
"""Events of an engine or worker that was lost, in the logs of the home."""
HIGH_RATIO = 0.95
"""Used share of a gateway's disk above which it is shown; the alert DiskNearlyFull has the same bound."""
REACH = names.LIMITS_REACH.name
LEADS = names.IS_LEADER.name
ANSWER_S = 3.0
"""Seconds that a process may take to answer `penstock status`, so that a suspended one does not block the screen."""
FIRING = 'ALERTS{alertstate="firing"}'
LOUDEST = f"topk(1, sum by (tenant) (rate({names.TENANT_QUEUE_SECONDS.name}_sum[1m])) > 0.5)"
"""The tenant with the most waiting: its seconds of wait a second, which equal its mean number of waiting requests."""


def now(settings: Settings) -> views.Present:
    found = reading(settings)
    alerts, loudest = _of_prometheus(settings)
    return views.Present(
        at=SystemClock().now(),
        leader=_leader(settings, found),
        circuits=_circuits(found),
        alerts=alerts,
        stores_away=_stores_away(found),
        disks_full=_disks_full(found),
        loudest=loudest,
        lost=_lost(settings),
    )


def processes(settings: Settings) -> list[LocalProcess]:
    return state.processes(settings.paths.run)


def listed(settings: Settings, found: Sequence[LocalProcess]) -> Listing:
    rows = [(one.name, one.pid, one.memory, one.cpu, one.metrics, one.restarts) for one in found]
    columns = ("process", "pid", "MB", "CPU s", "metrics", "restarts")
    return listing(f"Processes of {settings.paths.root}", columns, rows)


def _stores_away(found: Reading) -> tuple[str, ...]:
    reaches = (one for one in everywhere(found, REACH) if one.labels.get(Label.STATE) == "shared")
    return tuple(sorted(one.labels[INSTANCE] for one in reaches if one.value == 0.0))


def _disks_full(found: Reading) -> tuple[str, ...]:
    full = {one.labels[INSTANCE] for one in everywhere(found, names.SPOOL_FULL.name) if one.value}
    used = {one.labels[INSTANCE]: one.value or 0.0 for one in everywhere(found, names.DISK_USED_RATIO.name)}
    refusing = [f"{one} refuses requests, as its disk takes no more" for one in sorted(full)]
    scarce = [one for one, ratio in used.items() if ratio > HIGH_RATIO and one not in full]
    return (*refusing, *(f"{one} uses {used[one]:.1%} of its disk" for one in sorted(scarce)))


def _leader(settings: Settings, found: Reading) -> str:
    leads = {address for address, page in found.pages.items() if any(one.value for one in page.get(LEADS, ()))}
    return ", ".join(f"{one.name} (pid {one.pid})" for one in processes(settings) if one.metrics in leads)


def _circuits(found: Reading) -> tuple[views.OpenCircuit, ...]:
    since: dict[tuple[str, ...], float] = {}
    for one in everywhere(found, names.BREAKER_OPENED.name):
        circuit = tuple(one.labels.get(label, "") for label in names.BREAKER_OPENED.labels)
        since[circuit] = min(one.value or inf, since.get(circuit, inf))
    opened = (
        views.OpenCircuit(level=level, version=version, worker=worker, zone=zone, since=at)
        for (level, version, worker, zone), at in since.items()
    )
    return tuple(sorted(opened, key=lambda one: one.since))


def reading(settings: Settings) -> Reading:
    return read(observed.pages(settings), SystemClock().monotonic(), timeout_s=ANSWER_S)


def workers(settings: Settings) -> list[views.PagedWorker]:
    """Return the workers by their own pages: the controller's table needs the database."""
    pages = [page for page in reading(settings).pages.values() if page.get(names.WORKER_INFO.name)]
    return [_worker(page) for page in pages]


def _worker(page: Page) -> views.PagedWorker:
    def total(name: str) -> float:
        return sum(one.value or 0.0 for one in page.get(name, ()))

    info = page[names.WORKER_INFO.name][0].labels
    states = [one.labels[Label.STATE] for one in page.get(names.WORKER_STATE.name, ()) if one.value]
    return views.PagedWorker(
        name=info.get(Label.WORKER, ""),
        state=", ".join(states) or "unknown",
        runs=total(names.ENGINE_RUNNING.name),
        waits=total(names.DOOR_WAITING.name),
        restarts=total(f"{names.ENGINE_RESTARTS.name}_total"),
    )


def pages(settings: Settings) -> Iterator[str]:
    """Yield the addresses of this home's Prometheus and Alertmanager that answer."""
    found = observing.addresses(settings.paths)
    yield from (f"{what} at {url}" for what, url in found.items())
    if "metrics" in found and (page := observing.page_of_alerts(found["metrics"])):
        yield f"rules that fire at {page}"


def _of_prometheus(settings: Settings) -> tuple[tuple[str, ...], str]:
    prometheus: Prometheus | None = observed.prometheus(settings)
    if prometheus is None:
        return (), ""
    try:
        firing = [one.labels for one in prometheus.instant(FIRING)]
        loudest = prometheus.instant(LOUDEST)
    except CommandError:
        return ("unknown, as Prometheus does not answer",), ""
    alerts = {f"{one.get('alertname', '')} ({one.get('severity', '')})": None for one in firing}
    return tuple(sorted(alerts)), views.loudest(loudest)


def _lost(settings: Settings) -> str:
    """Return the time, worker and cause of the last lost engine in the home's logs; empty without one."""
    last: dict[str, str] = {}
    for path in (*settings.paths.logs.glob("worker-*.log"), *settings.paths.logs.glob("controller*.log")):
        with path.open(errors="replace") as log:
            for text in log:
                if not any(event in text for event in LOST):
                    continue
                line = json.loads(text) if text.startswith("{") and text.endswith("}\n") else {}
                if str(line.get("time", "")) > last.get("time", ""):
                    last = {name: str(value) for name, value in line.items()}
    if not last:
        return ""
    why = last.get("reason") or last.get("detail") or last.get("signal") or last.get("event", "")
    return f"{last['time'][:19].replace('T', ' ')} {last.get('worker', '')}: {why}"
