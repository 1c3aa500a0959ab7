"""How this process keeps memory between batches: what one batch had is there for the next one.

The C library gives large pieces back to the kernel as soon as they are free, and a model frees all of its activations
with each batch: the next one finds every page of them anew, by a fault each. For an image of EfficientNet these are
3,900 faults, a third of its seconds; for eight at once 41,000. Kept, they cost nothing.

Trade-off: what the largest batch took stays with the process, as it would between two of them anyway, and is bounded
as batches are. There is one arena for all threads: those of a thread of its own end at 64 MiB and are unmapped whole.
Source: mallopt(3), of the GNU C library; other libraries have no such function, and are left alone.
"""

import ctypes

KEPT_BYTES = 1 << 30
"""So much may lie free at the heap's end, and so large a piece may come from there."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def keep() -> bool:
    """Keep what is freed; tell whether that could be asked for. Before there are threads: they would have arenas."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, KEPT_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    return min(mallopt(what, value) for what, value in asked) == 1
