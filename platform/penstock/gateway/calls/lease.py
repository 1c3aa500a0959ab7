"""One lease per request: opened once, settled exactly once.

It holds all of a request's resources (slots, reservations, budget, ledger row), so that none leaks. Slots are released
when nothing runs any more; the usage may become known later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.errors import OverLimit, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.domain.tenancy.limits import Draw
from penstock.domain.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """A lease's end; ``held_s`` is the time until nothing ran any more."""

    outcome: Outcome
    usage: Usage
    held_s: float


class LeaseOwner(Protocol):
    def released(self, lease: "Lease") -> None: ...

    def ended(self, lease: "Lease") -> None: ...

    def settled(self, lease: "Lease", settlement: Settlement) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """The right to run one request; ``settle`` works, and returns True, once."""

    opened_at: float
    deadline_at: float
    start_by: float = 0.0
    """Monotonic second until which it may wait for the engine; 0 if its deadline alone bounds that."""
    promise: TimedPromise = NO_PROMISE
    owner: LeaseOwner | None = None
    held_s: float | None = None
    """How long it ran; None while it does."""
    expected_output: int = 0
    """Output tokens that this answer will probably have: reserved, and told to the worker."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """The caller's limits, sent with the reply's head."""
    drawn: tuple[Draw, ...] | None = None
    """Draws on meters, or those that a refusal was about; None if no meter was asked."""
    left: tuple[int, ...] = ()
    """Amount left in each of those meters, in the same order."""
    delivered: int = 0
    """Output tokens generated so far, as far as known: those passed on, or those that the worker counts."""
    end_early: Callable[[PenstockError], None] | None = None
    """Ends the running answer with this error; late bound: only the relay, made after the lease, can do it."""
    over_quota: OverLimit | None = None
    """The refusal of a request that runs over its quota: its caller is told it if there is no spare capacity."""
    settlement: Settlement | None = None

    def release(self, now: float) -> None:
        if self.held_s is None and self.owner is not None:
            self.owner.released(self)
        self._end(now)

    def settle(self, outcome: Outcome, usage: Usage, now: float) -> bool:
        if self.settlement is not None:
            return False
        self._end(now)
        self.settlement = Settlement(outcome=outcome, usage=usage, held_s=self.held_s or 0.0)
        if self.owner is not None:
            self.owner.settled(self, self.settlement)
        return True

    def _end(self, now: float) -> None:
        if self.held_s is not None:
            return
        self.held_s = now - self.opened_at
        self.end_early = None  # the relay knows the lease: no cycle is to stay
        if self.owner is not None:
            self.owner.ended(self)
