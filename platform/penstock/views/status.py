"""The state of a platform: workers with phases and load, the controller, the store of limits, certificates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.telemetry.series import Sample
from penstock.views.elements import Cell, Line, Listing, Record, Style, line, listing, of, table
from penstock.views.words import when

_SPEAKING = {"ready", "draining"}
"""States in which an engine runs, so that its figures are current."""
MOST_CIRCUITS = 8
MOST_TENANTS = 8
"""Open circuits that leave room for the tables on a screen of 24 lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStore:
    is_shared: bool
    """Whether the controller knows a store that gateways share."""
    is_remote: bool
    """Whether the controller is not this home's, so that the settings here are not the platform's."""
    name: str
    gateways: int
    away: int
    """Gateways that do not reach the store now, by their own pages."""
    doubt: str
    """A note for operators about the place of answers under idempotency keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCircuit:
    level: str
    version: str
    worker: str
    zone: str
    since: float

    def __str__(self) -> str:
        if self.level == "worker":
            return f"worker {self.worker} of {self.version}"
        return f"zone {self.zone}" if self.level == "zone" else f"version {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    at: float
    leader: str
    circuits: tuple[OpenCircuit, ...]
    alerts: tuple[str, ...]
    stores_away: tuple[str, ...]
    """Gateways that do not reach the limits store."""
    disks_full: tuple[str, ...]
    """Gateways with a disk that refuses writes, or has hardly any room."""
    loudest: str
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedWorker:
    name: str
    state: str
    runs: float
    waits: float
    restarts: float


def present(found: Present) -> Iterator[Line]:
    """Yield a line for each present fault, the tenant with the longest queue, the last lost engine, and the leader."""
    if found.alerts:
        yield line(("Alerts", Style.BAD), f" that fire: {', '.join(found.alerts)}")
    yield from _stores(found)
    for circuit in found.circuits[:MOST_CIRCUITS]:
        lasts_s = found.at - circuit.since
        yield line(("Circuit open", Style.BAD), f": {circuit}, since {when(circuit.since)} ({lasts_s:.0f} s)")
    if more := len(found.circuits) - MOST_CIRCUITS:
        yield from [line(("Circuits open", Style.BAD), f": {more} more")] * (more > 0)
    if found.loudest:
        yield line(("Loudest", Style.UNSURE), f" at the queue: {found.loudest}")
    if found.lost:
        yield line(("Last lost engine", Style.STRONG), f": {found.lost}")
    if found.leader:
        yield line(("Leader", Style.STRONG), f": {found.leader}")


def _stores(found: Present) -> Iterator[Line]:
    if found.stores_away:
        effect = "each applies its part of a rate, and refuses requests with a budget"
        yield line(("Limits store", Style.BAD), f": not reached by {', '.join(found.stores_away)}; {effect}")
    if found.disks_full:
        yield line(("Disk full", Style.BAD), f": {', '.join(found.disks_full)}; see runbooks/DiskFull.md")


def loudest(found: Sequence[Sample]) -> str:
    return ", ".join(
        f"{one.labels.get('tenant', '')}, {one.value:.3g} waiting on average" for one in found if one.value
    )


def workers_by_pages(found: Sequence[PagedWorker]) -> Listing:
    rows = [(one.name, one.state, f"{one.runs:.0f}+{one.waits:.0f}", f"{one.restarts:.0f}") for one in found]
    return listing("Workers, by their own pages", ("worker", "state", "runs+waits", "restarts"), rows)


def workers(found: Sequence[Record], lease_s: float) -> Iterator[Listing]:
    gone = [worker for worker in found if worker["age_s"] > lease_s or worker["state"] == "stopped"]
    yield _present([worker for worker in found if worker not in gone], lease_s)
    if gone:
        rows = [(worker["id"], _state(worker, lease_s), f"{worker['age_s']:.0f} s ago") for worker in gone]
        notes = [worker["detail"] for worker in gone]
        yield listing("Workers gone of late", ("worker", "state", "seen"), rows, notes)


def controller(found: Record, address: str) -> list[str]:
    name, other = found["leader_name"], "none leads, or the database is away"
    stands_by = f"stands by ({f'{name} leads' if name else other})"
    return [
        f"controller {f'{name} leads' if found['leader'] else stands_by} at {address}",
        f"routing table {found['table']} of {when(found['table_made_at'])}, {found['failed_ticks']} failed ticks",
    ]


def batch_work(found: Record) -> Iterator[str]:
    if found["is_paused"] or found["requests"] or found["batches"]:
        paused = "; PAUSED by an operator, `penstock jobs resume` lets it run" if found["is_paused"] else ""
        yield f"batch work: {found['requests']:,} requests and {found['batches']:,} batches have not ended{paused}"
    outside = [f"{one['tenant']} ({', '.join(one['pools'])})" for one in found.get("outside", ())]
    if outside:
        more = f" and {len(outside) - MOST_TENANTS} more" if len(outside) > MOST_TENANTS else ""
        yield f"batch work waits: no worker is in the plan's pools of {', '.join(outside[:MOST_TENANTS])}{more}"


def limits(store: LimitStore) -> list[str]:
    if store.is_shared:
        where = store.name if store.name and not store.is_remote else "the limits store"
        is_whole = f"shared by all gateways in {where}"
        shared = f"limits and budgets: {f'NOT SHARED; {store.away} gateways lack {where}' if store.away else is_whole}"
        return [shared, f"answers under idempotency keys: {store.doubt}"] if store.doubt else [shared]
    if store.is_remote:
        return ["limits and budgets: counted by each gateway for itself; the controller knows no store of limits"]
    if store.gateways > 1:
        return [f"limits and budgets: NOT HELD; {store.gateways} gateways share none (PENSTOCK_LIMITS_URL)"]
    return ["limits and budgets: counted by the one gateway"]


def certificates(controller: float | None, own: float | None, now: float) -> list[str]:
    """Return one line with the expiry of each certificate visible here, which shows whether renewal has stopped."""
    ends = {"the controller's": controller, "yours": own}
    told = [f"{owner} {_until(at, now)}" for owner, at in ends.items() if at is not None]
    return [f"certificates: {', '.join(told)}"] if told else []


def _until(at: float, now: float) -> str:
    left_h = (at - now) / 3600
    return f"until {when(at)} (HAS ENDED)" if left_h <= 0 else f"until {when(at)} ({left_h:.1f} h)"


def _present(workers: Sequence[Record], lease_s: float) -> Listing:
    columns: dict[str, Cell] = {
        "worker": "id",
        "state": lambda one: _state(one, lease_s),
        "runs+waits": lambda one: _load(one, lease_s)[0],
        "KV": lambda one: _load(one, lease_s)[1],
        "restarts": "restarts",
        "seen": of("{:.0f} s".format, "age_s"),
    }
    return table("Workers", workers, columns, _notes)


def _load(worker: Record, lease_s: float) -> tuple[str, str]:
    if worker["age_s"] > lease_s or worker["state"] not in _SPEAKING:
        return "-", "-"
    load = worker["load"]
    return f"{load['running']}+{load['waiting']}", f"{load['kv_used_ratio']:.0%}"


def _notes(worker: Record) -> str:
    before = [(name, worker[f"{name}_s"]) for name in ("machine", "image") if worker[f"{name}_s"]]
    timings = [*before, *((timing["phase"], timing["seconds"]) for timing in worker["phases"])]
    phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in timings)
    return " · ".join(filter(None, (worker["detail"], phases and f"phases in s: {phases}")))


def _state(worker: Record, lease_s: float) -> str:
    if worker["age_s"] > lease_s and worker["state"] not in {"stopped", "failed"}:
        return f"silent, was {worker['state']}"
    return f"{worker['state']}, to drain" if worker["draining"] else str(worker["state"])
