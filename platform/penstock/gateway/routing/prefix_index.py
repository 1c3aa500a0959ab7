"""Which workers probably hold which prompt blocks in their prefix cache. Bounded; a guess, never a promise.

Keys are chained block hashes that already contain the tenant's salt and the adapter, so tenants can't meet in it.
Memory: at most ``max_blocks`` entries of about 200 bytes (key, tuple of up to ``MAX_HOLDERS`` names, slot of the
map); the least recently used go first, as they do in the engines' own caches.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence

from penstock.domain.ids import WorkerId

MAX_HOLDERS = 4
BYTES_PER_BLOCK = 320
"""What an entry may cost at most, all in; a test measures it."""


class PrefixIndex:
    """One version's blocks, least recently used first."""

    __slots__ = ("_blocks", "_max_blocks")

    def __init__(self, max_blocks: int = 50_000) -> None:
        """Hold at most ``max_blocks`` (50,000 of 32 tokens: 1.6 million tokens in 16 MB)."""
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, tuple[WorkerId, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matches(self, blocks: Sequence[int], workers: Container[WorkerId]) -> dict[WorkerId, int]:
        """Return for each of these workers how many leading blocks it holds; those without any are left out."""
        found: dict[WorkerId, int] = {}
        held = self._blocks.get
        holding = [worker for worker in held(blocks[0], ()) if worker in workers] if blocks else []
        depth, before = 0, None
        for block in blocks:
            if not holding:
                break
            here = held(block, ())
            if here != before:  # mostly they are the same ones as a block before
                found |= {worker: depth for worker in holding if worker not in here}
                holding = [worker for worker in holding if worker in here]
                before = here
            depth += 1
        return found | dict.fromkeys(holding, depth)

    def record(self, blocks: Iterable[int], worker: WorkerId) -> None:
        """This worker is about to compute, or has, these blocks."""
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
