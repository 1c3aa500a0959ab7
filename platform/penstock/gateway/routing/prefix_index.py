"""Which workers probably hold which prompt blocks in their prefix cache. Bounded; a guess, never a promise.

Keys are chained block hashes that contain the tenant's salt and the adapter, so tenants can't meet in it. At most
``max_blocks`` entries; the least recently used go first, as in the engines' own caches.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable

from penstock.domain.ids import WorkerId

MAX_HOLDERS = 4
BYTES_PER_BLOCK = 320
"""What an entry may cost at most, all in; a test measures it."""


class PrefixIndex:
    __slots__ = ("_blocks", "_max_blocks")

    def __init__(self, max_blocks: int = 50_000) -> None:
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, tuple[WorkerId, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matches(self, blocks: Iterable[int], workers: Container[WorkerId]) -> dict[WorkerId, int]:
        """Return the leading blocks that these workers hold, of at most ``MAX_HOLDERS`` with most.

        The deepest block decides: its holder had all blocks before it. A beginning that all prompts share knows only
        the last few of its holders.
        """
        known: list[tuple[WorkerId, ...]] = []
        for block in blocks:
            here = self._blocks.get(block)
            if here is None:
                break
            known.append(here)
        found: dict[WorkerId, int] = {}
        before: tuple[WorkerId, ...] = ()
        for depth in range(len(known), 0, -1):
            here = known[depth - 1]
            if here != before:  # mostly they are the same ones as a block further on
                before = here
                found = {worker: depth for worker in here if worker in workers} | found
                if len(found) >= MAX_HOLDERS:
                    break
        return found

    def record(self, blocks: Iterable[int], worker: WorkerId) -> None:
        index = self._blocks
        for block in blocks:
            holders = index.get(block)
            if holders is None:
                index[block] = (worker,)
            elif holders[0] == worker:
                index.move_to_end(block)
            else:
                index[block] = (worker, *(h for h in holders if h != worker))[:MAX_HOLDERS]
                index.move_to_end(block)
        while len(index) > self._max_blocks:
            index.popitem(last=False)
