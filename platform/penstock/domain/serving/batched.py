"""The batch in which a request was computed, as its worker reports it: size, trigger, wait.

Stages of a request are derived from this report, and ``penstock explain`` shows it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Trigger(StrEnum):
    """The reason why a batch started; also a metric's label."""

    SIZE = "size"
    """It had as many items as one may have."""
    BUDGET = "budget"
    """One more would have been beyond its budget of tokens, or of seconds."""
    DEADLINE = "deadline"
    """Later it could not have been in time for its earliest deadline."""
    WAIT = "wait"
    """Its oldest item had waited as long as any may."""
    IDLE = "idle"
    """The device had nothing to do, and nobody was expected soon enough to be worth a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """A request's batch; ``size`` is the number of items at its start."""

    size: int
    trigger: Trigger
    waited_s: float
    prepared_s: float | None = None
    """How long its input took to become tensors; None where an older worker does not say."""
    computed_s: float | None = None
