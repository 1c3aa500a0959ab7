"""The fewest deadlines that any batching could miss on a small trace: exact, offline, by dynamic programming.

The state is the second at which the device is free, and the remaining items. Then a batch of one key starts, or the
device waits for the next arrival. A batch takes the earliest deadlines that can be met: swapping in a later one never
helps. Items that cannot be in time are not computed.
"""

from collections.abc import Callable, Sequence
from functools import cache

from loadtests.simulator.batches import Arrival
from penstock.worker.batching.items import Key


def fewest_missed(arrivals: Sequence[Arrival], most_items: int, seconds: Callable[[int], float]) -> int:
    """Return the least number of missed deadlines."""
    items = tuple(sorted(arrivals, key=lambda one: one.item.deadline_at))
    whole, least_s = (1 << len(items)) - 1, seconds(1)

    @cache
    def missed(now: float, left: int) -> int:
        """Return the misses among the remaining items on a device free from ``now``."""
        hopeless = sum(1 << i for i in range(len(items)) if left >> i & 1 and items[i].item.deadline_at < now + least_s)
        if hopeless:
            return hopeless.bit_count() + missed(now, left & ~hopeless)
        here = [i for i in range(len(items)) if left >> i & 1 and items[i].at <= now]
        coming = [items[i].at for i in range(len(items)) if left >> i & 1 and items[i].at > now]
        best = missed(min(coming), left) if coming else left.bit_count()
        by_key: dict[Key, list[int]] = {}
        for i in here:
            by_key.setdefault(items[i].item.key, []).append(i)
        for of_key in by_key.values():
            for size in range(1, min(most_items, len(of_key)) + 1):
                end = now + seconds(size)
                taken = [i for i in of_key if items[i].item.deadline_at >= end][:size]
                if len(taken) == size:
                    best = min(best, missed(round(end, 9), left & ~sum(1 << i for i in taken)))
        return best

    return missed(0.0, whole)
