"""Bounds connections by address: no address can take them all, and idle connections are closed first. Pure.

An address with a valid key may hold four times the free room (``share``), for many callers behind one gateway; without
one, the free room.
"""

from asyncio import Transport
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

C = TypeVar("C")

KNOWN_PARTS, STRANGER_PARTS = 4, 1
MOST_KNOWN = 10_000
PATIENCE_S = 1.0
"""Seconds without a head after which a connection may be closed for another; a younger one may still send it."""


class Placed(Protocol):
    transport: Transport


class Addresses(Generic[C]):
    """The connections of one process; ``now`` is monotonic seconds."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count: dict[str, int] = {}
        self._total = 0
        self._silent: dict[str, OrderedDict[C, float]] = {}
        self._known: OrderedDict[str, None] = OrderedDict()

    def enter(self, address: str, connection: C, now: float) -> tuple[bool, C | None]:
        """Return whether to admit, and which connection to close for it. ``leave`` ends each entry."""
        mine = self._count[address] = self._count.get(address, 0) + 1
        self._total += 1
        silent = self._silent.setdefault(address, OrderedDict())
        silent[connection] = now
        parts = KNOWN_PARTS if address in self._known else STRANGER_PARTS
        if mine <= parts * (self._most - self._total):
            return True, None
        oldest, since = next(iter(silent.items()))
        if now - since < PATIENCE_S:
            return False, None
        del silent[oldest]
        return True, oldest

    def spoke(self, address: str, connection: C) -> None:
        if (silent := self._silent.get(address)) is not None:
            silent.pop(connection, None)

    def prove(self, address: str) -> None:
        self._known[address] = None
        self._known.move_to_end(address)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def leave(self, address: str, connection: C) -> None:
        self.spoke(address, connection)
        self._total -= 1
        self._count[address] -= 1
        if not self._count[address]:
            del self._count[address]
            self._silent.pop(address, None)
