"""The batch in which a request was computed, as its worker reports it: size, trigger, wait.

Stages of a request are derived from this report, and ``penstock explain`` shows it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    """The reason why a batch started; also a metric's label."""

    SIZE = "size"
    """The batch had as many items as one may have."""
    BUDGET = "budget"
    """One more item would have exceeded the budget of tokens, or of seconds."""
    DEADLINE = "deadline"
    """A later start would have missed the earliest deadline."""
    WAIT = "wait"
    """The oldest item had waited for the longest permitted time."""
    IDLE = "idle"
    """The device was idle, and no item was expected soon enough to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """A request's batch; ``size`` is the number of items at its start."""

    size: int
    trigger: Trigger
    waited_s: float
    prepared_s: float | None = None
    """Seconds in which the input became tensors; None from an older worker."""
    computed_s: float | None = None
