"""One lease per request: opened once, settled exactly once, however the request ends.

All that a request holds (slots, reservations, budget, ledger row) hangs on this object, so that nothing leaks apart.
Slots are released when nothing runs any more; usage may be known a moment later.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.errors import OverLimit, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.limits import Draw
from penstock.domain.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """End of a lease: outcome, usage, seconds until nothing ran any more."""

    outcome: Outcome
    usage: Usage
    held_s: float


class Lease:
    """The right to run one request; ``settle`` works once, later calls change nothing."""

    __slots__ = (
        "_opened_at",
        "deadline_at",
        "delivered",
        "drawn",
        "end_early",
        "expected_output",
        "headers",
        "held_s",
        "left",
        "on_end",
        "on_release",
        "on_settle",
        "over_quota",
        "settlement",
        "start_by",
    )

    def __init__(
        self, *, opened_at: float, deadline_at: float, on_settle: Callable[[Settlement], None] | None = None
    ) -> None:
        self._opened_at = opened_at
        self.on_settle = on_settle
        self.on_end: Callable[[], None] | None = None
        """Called when nothing runs any more."""
        self.on_release: Callable[[], None] | None = None
        """Called where that is known before what was used: what the request occupied is to be given back at once."""
        self.held_s: float | None = None
        """How long it ran; None while it does."""
        self.deadline_at = deadline_at
        self.start_by = 0.0
        """Monotonic second until which it may wait for the engine; 0 where its deadline alone bounds that."""
        self.expected_output = 0
        """Output tokens that this answer will probably have: what is reserved, and what the worker is told."""
        self.headers: list[tuple[bytes, bytes]] = []
        """What the caller is told of its limits, with the reply's head."""
        self.drawn: tuple[Draw, ...] | None = None
        """What it draws, or what its refusal was about; None where no meter was asked."""
        self.left: tuple[int, ...] = ()
        """What each of those meters had left, in the same order."""
        self.delivered = 0
        """Output tokens generated so far, as far as is known: those passed on, or what the worker counts."""
        self.end_early: Callable[[PenstockError], None] | None = None
        """Ends the running answer with this error; set by the relay while it runs."""
        self.over_quota: OverLimit | None = None
        """What a request that runs over its quota would have heard: it still does, where there is no spare capacity."""
        self.settlement: Settlement | None = None

    def release(self, now: float) -> None:
        """Free the slots: nothing runs any more, usage is still unknown."""
        if self.held_s is None and self.on_release is not None:
            self.on_release()
        self._end(now)

    def settle(self, outcome: Outcome, usage: Usage, now: float) -> bool:
        """End the lease; True the first time, False after that."""
        if self.settlement is not None:
            return False
        self._end(now)
        self.settlement = Settlement(outcome=outcome, usage=usage, held_s=self.held_s or 0.0)
        on_settle, self.on_settle = self.on_settle, None
        if on_settle is not None:
            on_settle(self.settlement)
        return True

    def _end(self, now: float) -> None:
        if self.held_s is not None:
            return
        self.held_s = now - self._opened_at
        on_end, self.on_end = self.on_end, None  # whoever is called knows us: no cycle is to stay
        self.on_release = self.end_early = None
        if on_end is not None:
            on_end()
