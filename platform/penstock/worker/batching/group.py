"""Waiting items of one key: two classes in order of arrival, and the next expected arrival. Pure."""

from collections import Counter, deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from math import inf

from penstock.worker.batching.items import Key, Waiting

ARRIVALS = 16
"""Arrivals from which the recent rate is computed: few enough that a burst's begin and end show at once."""


class Group:
    """Each operation on an item is O(1)."""

    __slots__ = ("_came", "earliest", "interactive", "key", "longest", "offline")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.interactive: dict[Waiting, None] = {}
        self.offline: dict[Waiting, None] = {}
        self.earliest, self.longest = inf, 0
        """The earliest deadline, and what the largest item costs."""
        self._came: deque[float] = deque(maxlen=ARRIVALS)

    def __len__(self) -> int:
        return len(self.interactive) + len(self.offline)

    def __iter__(self) -> Iterator[Waiting]:
        yield from self.interactive
        yield from self.offline

    def counts(self) -> Collection[int]:
        return Counter(one.item.tenant for one in self).values()

    @property
    def last_came(self) -> float:
        return self._came[-1] if self._came else -inf

    def come(self, waiting: Waiting) -> None:
        (self.offline if waiting.is_offline else self.interactive)[waiting] = None
        self._came.append(waiting.came_at)
        self.earliest = min(self.earliest, waiting.deadline_at)
        self.longest = max(self.longest, waiting.item.cost)

    def withdraw(self, gone: Waiting) -> bool:
        """Remove it from the arrival rate too; return whether the item was waiting."""
        if gone not in (self.offline if gone.is_offline else self.interactive):
            return False
        with suppress(ValueError):
            self._came.remove(gone.came_at)
        self.leave(gone)
        return True

    def leave(self, *gone: Waiting) -> None:
        for one in gone:
            (self.offline if one.is_offline else self.interactive).pop(one, None)
        self.earliest = min((one.deadline_at for one in self), default=inf)
        self.longest = max((one.item.cost for one in self), default=0)

    def oldest(self, *, offline: bool) -> Waiting | None:
        return next(iter(self.offline if offline else self.interactive), None)

    def next_in_s(self, now: float) -> float:
        came = self._came
        return (now - came[0]) / (len(came) - 1) if len(came) > 1 else inf
