"""Keeps freed memory in the process between batches, so that the next batch reuses it.

The C library returns large blocks to the kernel as soon as they are free, and the next batch takes a page fault for
every page: 3,900 for an image of EfficientNet, a third of its time.

Trade-off: the largest batch's memory stays with the process. Source: mallopt(3), of the GNU C library, and its
``arena.c``; with other libraries nothing happens.
"""

import ctypes

KEPT_BYTES = 1 << 30
"""Bytes that may stay free at the heap's end, and the largest block allocated there."""
PAD_BYTES = 128 << 20
"""Twice another arena's heap: address space, of which only touched pages count."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def keep() -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = {_ARENA_MAX: 1, _MMAP_THRESHOLD: KEPT_BYTES, _TRIM_THRESHOLD: KEPT_BYTES, _TOP_PAD: PAD_BYTES}
    return min(mallopt(what, value) for what, value in asked.items()) == 1
