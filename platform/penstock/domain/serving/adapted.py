"""How a request met its adapter at a worker, as its gate tells the gateway: there, waited for a slot, or loaded.

On the wire: ``outcome,waited``, in milliseconds. A request's stage ``adapter`` is made of it, and ``penstock explain``
tells it. Readers take two fields or more.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

HEADER = "x-penstock-adapter"
MOST_CHARS = 64
_FIELDS = 2


class Met(StrEnum):
    """What a request found of its adapter when it came."""

    HIT = "hit"
    """In memory, and in a slot of the batch or with a free one: nothing to wait for."""
    QUEUED = "queued"
    """In memory, with all slots at others: it waited for one."""
    LOADED = "loaded"
    """Not in memory, or not yet found right: it waited until it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """How it was met, and the wait for that alone, which is a part of the wait at the door."""

    met: Met
    waited_s: float = 0.0


def told(adapted: Adapted) -> bytes:
    """Return the header's value."""
    return b"%b,%.3f" % (adapted.met.encode(), adapted.waited_s * 1e3)


def heard(value: str) -> Adapted | None:
    """Return what a gate told; None where it told nothing, or nonsense."""
    try:
        met, waited_ms = value.split(",")[:_FIELDS]
        found = Adapted(met=Met(met), waited_s=float(waited_ms) / 1e3)
    except ValueError:
        return None
    return found if 0.0 <= found.waited_s < math.inf else None
