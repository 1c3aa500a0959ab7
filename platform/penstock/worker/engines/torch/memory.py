"""Keeps freed memory in the process between batches, so that the next batch reuses it.

The C library gives large pieces back to the kernel as soon as they are free, and a model frees all of its activations
with each batch: the next batch finds every page of them anew, by a fault each. For an image of EfficientNet these are
3,900 faults, a third of its seconds; for eight at once 41,000. Kept memory costs none.

One arena for all threads, unless there are others already: a forked process has those of its parent's threads, whose
heaps end at 64 MiB and are unmapped whole, unless more than such a heap is to be padded.

Trade-off: the largest batch's memory stays with the process, bounded as batches are.
Source: mallopt(3), of the GNU C library, and its ``arena.c``; with other libraries nothing happens.
"""

import ctypes

KEPT_BYTES = 1 << 30
"""So much may lie free at the heap's end, and so large a piece may come from there."""
PAD_BYTES = 128 << 20
"""Twice a heap of another arena: address space, of which only what is touched counts."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def keep() -> bool:
    """Keep freed memory in the process; False if the C library can't."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = {_ARENA_MAX: 1, _MMAP_THRESHOLD: KEPT_BYTES, _TRIM_THRESHOLD: KEPT_BYTES, _TOP_PAD: PAD_BYTES}
    return min(mallopt(what, value) for what, value in asked.items()) == 1
