"""A bounded store shared by independent callers: none may hold more than is free. Pure.

One caller alone may fill a half, two a third each, ``k`` together ``k / (k + 1)``: a new caller always finds room, and
none is reserved for absent callers. Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
packet switches", 1998.
"""


class SharedRoom:
    """Units by holder; each may hold ``parts`` times the free room."""

    def __init__(self, total: int, *, parts: int = 1) -> None:
        self._total, self._parts = total, parts
        self._used = 0
        self._held: dict[str, int] = {}

    @property
    def used(self) -> int:
        return self._used

    def held(self, who: str) -> int:
        return self._held.get(who, 0)

    def take(self, who: str, units: int) -> bool:
        """Take the units; False, with none taken, if they exceed the holder's bound."""
        mine = self._held.get(who, 0) + units
        if mine > self._parts * (self._total - self._used - units):
            return False
        self._held[who] = mine
        self._used += units
        return True

    def give(self, who: str, units: int) -> None:
        self._used -= units
        left = self._held[who] - units
        if left:
            self._held[who] = left
        else:
            del self._held[who]
