"""Reasons for wakes and sleeps, in words: each names its signal and its objective. Pure."""

from penstock.capacity.memory import megabytes
from penstock.domain.fleet.decision import Decision
from penstock.domain.ids import VersionId, WorkerId


def woken(worker: WorkerId, version: VersionId, signal: str, value: str) -> Decision:
    return Decision(what="wake", target=worker, signal=signal, value=value, objective=f"{version} is there when needed")


def slept(worker: WorkerId, version: VersionId, gives_way_to: VersionId, signal: str, *, is_turn: bool) -> Decision:
    return Decision(
        what="sleep",
        target=worker,
        signal=signal,
        value=f"{gives_way_to} {'has waited for its turn' if is_turn else 'needs its memory'}",
        objective=f"of all {'busy' if is_turn else 'idle'} workers {version} was used least for what it holds",
    )


def too_many(worker: WorkerId, over_bytes: int, limit_bytes: int) -> Decision:
    return Decision(
        what="sleep",
        target=worker,
        signal="pool_bytes",
        value=f"{megabytes(over_bytes)} too many are held",
        objective=f"the pool has {megabytes(limit_bytes)}",
    )


def no_place(version: VersionId, signal: str, size_bytes: int, limit_bytes: int) -> Decision:
    needs = f"it needs {megabytes(size_bytes)}, and no worker that may sleep now is idle"
    return Decision(
        what="wait",
        target=version,
        signal=signal,
        value=does_not_fit(size_bytes, limit_bytes) if size_bytes > limit_bytes else needs,
        objective=f"the pool has {megabytes(limit_bytes)}",
    )


def given_up(worker: WorkerId, size_bytes: int, limit_bytes: int) -> Decision:
    return Decision(
        what="drain",
        target=worker,
        signal="pool_bytes",
        value=does_not_fit(size_bytes, limit_bytes),
        objective=f"the pool has {megabytes(limit_bytes)}",
    )


def does_not_fit(size_bytes: int, limit_bytes: int) -> str:
    return f"does not fit: needs {size_bytes / 1e6:,.0f} of {megabytes(limit_bytes)}"


def is_crowded_out(size_bytes: int, limit_bytes: int) -> str:
    does = "penstock models unpin VERSION, or enlarge PENSTOCK_POOL_BYTES"
    return f"has no place beside what is pinned: needs {size_bytes / 1e6:,.0f} of {megabytes(limit_bytes)} ({does})"
