"""Who may be considered at all. Filters remove; they never prefer. Pure."""

from collections.abc import Callable, Collection, Sequence

from penstock.domain.ids import WorkerId
from penstock.domain.table import WorkerEntry
from penstock.domain.worker import Load


def ready(workers: Sequence[WorkerEntry]) -> list[WorkerEntry]:
    """Keep those that serve."""
    return [w for w in workers if w.state.serves]


def untried(workers: Sequence[WorkerEntry], tried: Collection[WorkerId]) -> list[WorkerEntry]:
    """Drop those that this request has already met."""
    return [w for w in workers if w.id not in tried] if tried else list(workers)


def healthy(workers: Sequence[WorkerEntry], ejected: Collection[WorkerId]) -> list[WorkerEntry]:
    """Drop those that are left alone for a while; with nobody left, keep them all: trying beats refusing."""
    if not ejected:
        return list(workers)
    return [w for w in workers if w.id not in ejected] or list(workers)


def with_room(
    workers: Sequence[WorkerEntry], load_of: Callable[[WorkerEntry], Load], max_waiting: int
) -> list[WorkerEntry]:
    """Drop those whose queue is full."""
    return [w for w in workers if load_of(w).waiting < max_waiting]
