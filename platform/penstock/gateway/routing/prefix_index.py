"""Prompt blocks that workers probably hold in their prefix caches. The index is bounded, and only an estimate.

Keys are chained block hashes that contain the tenant's salt and the adapter, so no two tenants share a key.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable

from penstock.domain.ids import WorkerId

MAX_BLOCKS, MAX_HOLDERS = 50_000, 4


class PrefixIndex:
    __slots__ = ("_blocks", "_max_blocks")

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, tuple[WorkerId, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matches(self, blocks: Iterable[int], workers: Container[WorkerId]) -> dict[WorkerId, int]:
        """Leading blocks by worker, for the ``MAX_HOLDERS`` with most. A worker that holds the deepest known block has
        all blocks before it.
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
