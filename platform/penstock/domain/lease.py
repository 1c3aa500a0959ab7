"""One lease per request: opened once, settled exactly once, however the request ends.

Everything a request holds (slots, and later reservations, budget, ledger row) hangs on this one object,
so nothing can leak apart from the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.errors import OverLimit, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a lease ended: the outcome, what was consumed, the seconds it was held."""

    outcome: Outcome
    usage: Usage
    held_s: float


class Lease:
    """The right to run one request; ``settle`` works once, later calls change nothing."""

    __slots__ = (
        "_opened_at",
        "deadline_at",
        "delivered",
        "end_early",
        "expected_output",
        "headers",
        "on_settle",
        "over_quota",
        "settlement",
    )

    def __init__(
        self, *, opened_at: float, deadline_at: float, on_settle: Callable[[Settlement], None] | None = None
    ) -> None:
        """Open at monotonic second ``opened_at``; work past monotonic ``deadline_at`` is worthless."""
        self._opened_at = opened_at
        self.on_settle = on_settle
        self.deadline_at = deadline_at
        self.expected_output = 0
        """Output tokens that this answer will probably have: what is reserved, and what the worker is told."""
        self.headers: list[tuple[bytes, bytes]] = []
        """What the caller is told of its limits, with the reply's head."""
        self.delivered = 0
        """Output tokens passed on so far; the relay counts."""
        self.end_early: Callable[[PenstockError], None] | None = None
        """Ends the running answer with this error; set by the relay while it runs."""
        self.over_quota: OverLimit | None = None
        """What a request that runs over its quota would have heard: it still does, where there is no spare capacity."""
        self.settlement: Settlement | None = None

    def settle(self, outcome: Outcome, usage: Usage, now: float) -> bool:
        """End the lease; True the first time, False after that."""
        if self.settlement is not None:
            return False
        self.settlement = Settlement(outcome=outcome, usage=usage, held_s=now - self._opened_at)
        on_settle, self.on_settle, self.end_early = self.on_settle, None, None  # they know us: no cycle is to stay
        if on_settle is not None:
            on_settle(self.settlement)
        return True
