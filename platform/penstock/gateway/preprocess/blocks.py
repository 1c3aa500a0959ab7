"""Prefix hashes of a prompt: one 64-bit hash per full block of tokens, each over all before it. Pure.

The chain is seeded with the tenant's cache salt (and the adapter): equal prompts of two tenants share nothing, as in
engines' prefix caches. The hashes are ours; only equality matters.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

MAX_BLOCKS = 1_024
"""Routing looks no deeper: the rest of a longer prompt can't change where its beginning is cached."""


def seed(cache_salt: str, adapter: str = "") -> bytes:
    return blake2b(f"{cache_salt}\x1f{adapter}".encode(), digest_size=8).digest()


def hashes(tokens: Sequence[int], block_size: int, start: bytes) -> tuple[int, ...]:
    """Return one hash per full block; engines do not cache the last, partial block."""
    width = 4 * block_size
    raw = array("I", tokens[: MAX_BLOCKS * block_size]).tobytes()
    out: list[int] = []
    link = start
    for at in range(0, len(raw) - width + 1, width):
        link = blake2b(link + raw[at : at + width], digest_size=8).digest()
        out.append(int.from_bytes(link, "little"))
    return tuple(out)
