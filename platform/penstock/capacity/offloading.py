"""Whether KV blocks that leave a GPU are kept in its host's memory: the engine's own offloading, only if it pays. Pure.

Every prompt token without a hit on the GPU crosses the link to the host once. Offloading pays if the prompts that need
not be computed again take longer than that:

    evicted x compute > (1 - hits) x link, so from evicted = (1 - hits) x link / compute on

Trade-off: the link's time is charged in full, although the engine copies beside its steps: it is turned on late.
"""

from dataclasses import dataclass

from penstock.capacity.gpus import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixHistory:
    """Parts of a version's prompt tokens, 0 to 1, that a plan may count on."""

    hits: float
    """Found in the prefix cache on the GPU."""
    evicted: float
    """Seen before by the router, and no longer found there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offloading:
    size_bytes: int
    because: str


def offloading(host_bytes: int, history: PrefixHistory | None, *, link_s: float, compute_s: float) -> Offloading:
    """Return the host memory for KV blocks; ``link_s`` and ``compute_s`` are of one prompt token."""
    if not host_bytes:
        return Offloading(size_bytes=0, because="no host memory given")
    if history is None:
        return Offloading(size_bytes=0, because="no history of hits and evictions given")
    least = (1 - history.hits) * link_s / compute_s
    costs = f"{link_s * 1e6:.2f} us a token over the link, {compute_s * 1e6:.2f} us computed"
    if history.evicted <= least:
        said = f"{history.evicted:.1%} of prompt tokens were evicted, it pays from {least:.1%}"
        return Offloading(size_bytes=0, because=f"{said}: {costs}")
    whole = host_bytes // GIB * GIB
    return Offloading(size_bytes=whole, because=f"{history.evicted:.1%} evicted, pays from {least:.1%}: {costs}")
