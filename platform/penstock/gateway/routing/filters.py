"""Who may be considered at all. Filters remove; they never prefer. Pure."""

from collections.abc import Collection, Sequence

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import WorkerId


def ready(workers: Sequence[WorkerEntry]) -> list[WorkerEntry]:
    """Keep those that serve."""
    return [w for w in workers if w.state.serves]


def untried(workers: Sequence[WorkerEntry], tried: Collection[WorkerId]) -> list[WorkerEntry]:
    """Drop those that this request has already met."""
    return [w for w in workers if w.id not in tried] if tried else list(workers)


def healthy(
    workers: Sequence[WorkerEntry], ejected: Collection[WorkerId], *, may_be_none: bool = False
) -> list[WorkerEntry]:
    """Drop those that are left alone for a while; with nobody left, keep them all: trying beats refusing.

    ``may_be_none``: there are others to try.
    """
    left = [w for w in workers if w.id not in ejected]
    return left if left or may_be_none else list(workers)
