"""In which batch a request was computed, as its worker tells the gateway: its size, why it started, the wait for it.

On the wire: ``size,trigger,waited,prepared,computed``, the last three in milliseconds. A request's stages are made of
it, and ``penstock explain`` tells it.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

HEADER = "x-penstock-batch"
MOST_CHARS = 64
_FIELDS, _ALL = 5, 2


class Trigger(StrEnum):
    """Why a batch started; also the value of a metric's label."""

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
    """How one item fared; the size is that of the batch as it started."""

    size: int
    trigger: Trigger
    waited_s: float
    prepared_s: float | None = None
    """How long its input took to become tensors; None where an older worker does not say."""
    computed_s: float | None = None
    """How long its batch was computed."""


def told(batched: Batched) -> bytes:
    """Return the header's value."""
    value = b"%d,%s,%.3f" % (batched.size, batched.trigger.encode(), batched.waited_s * 1e3)
    if batched.prepared_s is None or batched.computed_s is None:
        return value
    return b"%b,%.3f,%.3f" % (value, batched.prepared_s * 1e3, batched.computed_s * 1e3)


def heard(value: str) -> Batched | None:
    """Return what a worker told; None where it told nothing, or nonsense. An older one says less, a newer one more."""
    try:
        size, trigger, *told_ms = value.split(",")[:_FIELDS]
        seconds = [float(one) / 1e3 for one in told_ms]
        found = Batched(size=int(size), trigger=Trigger(trigger), waited_s=seconds[0])
    except (ValueError, IndexError):
        return None
    if found.size < 1 or not all(0.0 <= one < math.inf for one in seconds):
        return None
    return replace(found, prepared_s=seconds[1], computed_s=seconds[2]) if len(seconds) > _ALL else found
