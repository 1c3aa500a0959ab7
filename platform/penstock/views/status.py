"""What runs: workers with phases and load, the controller, the store of limits, certificates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.views.elements import Listing, Record, listing
from penstock.views.words import when

_SPEAKING = {"ready", "draining"}
"""States in which an engine runs, so that its figures are current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStore:
    is_shared: bool
    """The controller knows a store that gateways share."""
    is_remote: bool
    """The controller is not this home's, so that the settings here are not the platform's."""
    name: str
    gateways: int
    doubt: str
    """What an operator should know of where answers under idempotency keys are kept."""


def workers(found: Sequence[Record], lease_s: float) -> Iterator[Listing]:
    gone = [worker for worker in found if worker["age_s"] > lease_s or worker["state"] == "stopped"]
    yield _present([worker for worker in found if worker not in gone], lease_s)
    if gone:
        rows = [(worker["id"], _state(worker, lease_s), f"{worker['age_s']:.0f} s ago") for worker in gone]
        notes = [worker["detail"] for worker in gone]
        yield listing("Workers gone of late", ("worker", "state", "seen"), rows, notes)


def controller(found: Record, address: str) -> list[str]:
    return [
        f"controller {'leads' if found['leader'] else 'stands by'} at {address}",
        f"routing table {found['table']} of {when(found['table_made_at'])}, {found['failed_ticks']} failed ticks",
    ]


def limits(store: LimitStore) -> list[str]:
    if store.is_shared:
        where = store.name if store.name and not store.is_remote else "the limits store"
        shared = f"limits and budgets: shared by all gateways in {where}"
        return [shared, f"answers under idempotency keys: {store.doubt}"] if store.doubt else [shared]
    if store.is_remote:
        return ["limits and budgets: counted by each gateway for itself; the controller knows no store of limits"]
    if store.gateways > 1:
        return [f"limits and budgets: NOT HELD; {store.gateways} gateways share none (PENSTOCK_LIMITS_URL)"]
    return ["limits and budgets: counted by the one gateway"]


def certificates(controller: float | None, own: float | None, now: float) -> list[str]:
    """Return the certificates' ends visible here: their renewal may have stopped."""
    ends = {"the controller's": controller, "yours": own}
    told = [f"{owner} {_until(at, now)}" for owner, at in ends.items() if at is not None]
    return [f"certificates: {', '.join(told)}"] if told else []


def _until(at: float, now: float) -> str:
    left_h = (at - now) / 3600
    return f"until {when(at)} (HAS ENDED)" if left_h <= 0 else f"until {when(at)} ({left_h:.1f} h)"


def _present(workers: Sequence[Record], lease_s: float) -> Listing:
    rows = [
        (
            worker["id"],
            _state(worker, lease_s),
            *_load(worker, lease_s),
            worker["restarts"],
            f"{worker['age_s']:.0f} s",
        )
        for worker in workers
    ]
    columns = ("worker", "state", "runs+waits", "KV", "restarts", "seen")
    return listing("Workers", columns, rows, [_notes(worker) for worker in workers])


def _load(worker: Record, lease_s: float) -> tuple[str, str]:
    if worker["age_s"] > lease_s or worker["state"] not in _SPEAKING:
        return "-", "-"
    load = worker["load"]
    return f"{load['running']}+{load['waiting']}", f"{load['kv_used_ratio']:.0%}"


def _notes(worker: Record) -> str:
    phases = ", ".join(f"{timing['phase']} {timing['seconds']:.1f}" for timing in worker["phases"])
    return " · ".join(filter(None, (worker["detail"], phases and f"phases in s: {phases}")))


def _state(worker: Record, lease_s: float) -> str:
    if worker["age_s"] > lease_s and worker["state"] not in {"stopped", "failed"}:
        return f"silent, was {worker['state']}"
    return f"{worker['state']}, to drain" if worker["draining"] else str(worker["state"])
