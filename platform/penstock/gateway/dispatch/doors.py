"""Which doors have refused a request, and when each may be asked again. Pure.

A door that says how long a wait is means it: it keeps a place for who comes then, and asking earlier makes it a second
one and costs a retry. Who said nothing of a wait (a connection that broke, a worker that drains) may be asked any time.

Trade-off: a door that has room sooner than it said is not found out by this request, but by the caller's next.
"""

from penstock.domain.errors import PenstockError
from penstock.domain.ids import WorkerId

SHORT_S = 1.0
"""A wait that is spent here; a longer one is the caller's, who is told of it."""


class Doors:
    """Those that one request has met."""

    __slots__ = ("_opens_at", "_said")

    def __init__(self) -> None:
        self._opens_at: dict[WorkerId, float] = {}
        self._said: dict[WorkerId, PenstockError] = {}

    def refused(self, worker: WorkerId, error: PenstockError, now: float) -> None:
        """Take down what a door said at monotonic second ``now``."""
        self._opens_at[worker] = now + (error.retry_after_s or 0.0)
        self._said[worker] = error

    def shut(self, workers: frozenset[WorkerId], now: float) -> frozenset[WorkerId]:
        """Return those whose wait has not passed."""
        return frozenset(worker for worker in workers if self._opens_at.get(worker, now) > now)

    def soonest(self, workers: frozenset[WorkerId]) -> PenstockError | None:
        """Return what the door said that opens first: that is worth telling; None where none of these refused."""
        refused = [worker for worker in workers if worker in self._said]
        return self._said[min(refused, key=self._opens_at.__getitem__)] if refused else None

    def wait_s(self, workers: frozenset[WorkerId], now: float) -> float:
        """Return the seconds until the first of these may be asked again."""
        return max(0.0, min((self._opens_at.get(worker, now) for worker in workers), default=now) - now)
