"""A request's LoRA adapter at a worker, as the gate reports it: already in a slot, waited for a slot, or loaded.

The stage ``adapter`` of a request is derived from this report, and ``penstock explain`` shows it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Met(StrEnum):
    """The adapter's state when the request arrived."""

    HIT = "hit"
    """In memory and in a slot of the batch, or a slot was free: no wait."""
    QUEUED = "queued"
    """In memory, but all slots were taken: the request waited for one."""
    LOADED = "loaded"
    """Not in memory, or not yet checked: the request waited for the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """The adapter's state when the request arrived, and the wait for the adapter, a part of the wait in the queue."""

    met: Met
    waited_s: float = 0.0
