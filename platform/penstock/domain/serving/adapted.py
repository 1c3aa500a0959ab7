"""How a request met its adapter at a worker, as its gate tells the gateway: there, waited for a slot, or loaded.

A request's stage ``adapter`` is made of it, and ``penstock explain`` tells it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Met(StrEnum):
    """The adapter's state at a request's arrival."""

    HIT = "hit"
    """In memory, and in a slot of the batch or with a free one: nothing to wait for."""
    QUEUED = "queued"
    """In memory, with all slots at others: it waited for one."""
    LOADED = "loaded"
    """Not in memory, or not yet found right: it waited until it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """The adapter's state at arrival, and the wait for it, a part of the wait at the door."""

    met: Met
    waited_s: float = 0.0
