"""Whether a request fits the engine now: batch slots and KV blocks, with a bound on each tenant's part.

A request enters only when the blocks of its prompt and expected output are free, so the engine neither queues
nor preempts. Expectations may be exceeded: what a request really holds is counted as its tokens come.

A tenant alone may fill the engine but for the seats kept for better classes; beside others it is held to its share
even while they pause, so that they find a free seat when they come back.

Trade-off: seats kept free are throughput given up for isolation. Booking the worst case (``max_tokens``) would never
preempt but leaves most of the KV cache empty; booking the expectation fills it and may preempt when many answers run
long at once. Preemptions are counted.
"""

from dataclasses import dataclass

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenant import Priority
from penstock.worker.admission.cost import Fit, Work

CLASS_SHARE = {Priority.INTERACTIVE: 1.0, Priority.STANDARD: 0.9, Priority.BATCH: 0.7}
"""The part of the engine that requests of a class (and worse ones) may fill: the rest waits for better ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSize:
    """What the engine has: requests per batch, KV blocks, tokens per block."""

    max_seqs: int
    kv_blocks: int
    block_size: int
    watermark: float = 0.02
    """The part of the blocks that is left free for running requests to grow into."""
    prefill_tokens: int = 256
    """How many prompt tokens may be on their way through prefill before the next request waits here instead:
    whoever comes next then waits for that much foreign prefill at most, and not for all that was queued before."""

    def blocks(self, tokens: int) -> int:
        """Return how many blocks hold so many tokens."""
        return -(-tokens // self.block_size)


class Seats:
    """Who sits in the engine and how much of it each holds."""

    def __init__(self, size: EngineSize) -> None:
        """Begin empty."""
        self.size = size
        self._held: dict[RequestId, tuple[TenantId, int]] = {}
        self._by_tenant: dict[TenantId, tuple[int, int]] = {}
        self._prefilling: dict[RequestId, int] = {}
        self._prefill_tokens = 0
        self._blocks = 0

    def __len__(self) -> int:
        """Requests in the engine."""
        return len(self._held)

    @property
    def saturation(self) -> float:
        """How full the engine is, by the scarcer of slots and blocks; 1.0 means full."""
        return max(len(self._held) / self.size.max_seqs, self._blocks / self._usable)

    @property
    def _usable(self) -> float:
        return self.size.kv_blocks * (1 - self.size.watermark)

    def room_for(self, work: Work) -> Fit:
        """Tell whether slots, blocks and prefill leave room for the request, whoever sends it.

        A request larger than every bound still fits into an empty engine: the context check made sure it can run.
        """
        if not self._held:
            return Fit.YES
        if self._prefilling and self._prefill_tokens + work.prompt_tokens > self.size.prefill_tokens:
            return Fit.NO_ROOM
        has_slot, has_blocks = len(self._held) < self.size.max_seqs, self._blocks + self._need(work) <= self._usable
        return Fit.YES if has_slot and has_blocks else Fit.NO_ROOM

    def fits(self, work: Work, share: float) -> Fit:
        """Tell whether the request may enter now, its tenant being entitled to ``share`` (0..1] of the engine."""
        room = self.room_for(work)
        if room is not Fit.YES or not self._held:
            return room
        part = CLASS_SHARE[work.priority]
        if len(self._held) >= self.size.max_seqs * part or self._blocks + self._need(work) > self._usable * part:
            return Fit.OVER_SHARE
        return Fit.YES if self._within(work, share) else Fit.OVER_SHARE

    def _within(self, work: Work, share: float) -> bool:
        """Tell whether the tenant stays within its share; one request at a time is always within it."""
        seats, blocks = self._by_tenant.get(work.tenant, (0, 0))
        return seats == 0 or (seats < self.size.max_seqs * share and blocks + self._need(work) <= self._usable * share)

    def take(self, work: Work) -> None:
        """Seat the request; its prompt is in prefill until ``prefilled``."""
        self._prefilling[work.request] = work.prompt_tokens
        self._prefill_tokens += work.prompt_tokens
        self._hold(work.request, work.tenant, self._need(work))

    def prefilled(self, request: RequestId) -> None:
        """The request's first token has come."""
        self._prefill_tokens -= self._prefilling.pop(request, 0)

    def grow(self, work: Work, tokens: int) -> None:
        """Count what a seated request really holds once it has more tokens than it booked."""
        tenant, blocks = self._held[work.request]
        self._hold(work.request, tenant, max(blocks, self.size.blocks(tokens)))

    def leave(self, request: RequestId) -> None:
        """Free the request's seat; nothing happens where it has none."""
        self.prefilled(request)
        if request in self._held:
            tenant, blocks = self._held.pop(request)
            self._count(tenant, -1, -blocks)

    def _need(self, work: Work) -> int:
        return self.size.blocks(work.prompt_tokens + work.expected_output_tokens)

    def _hold(self, request: RequestId, tenant: TenantId, blocks: int) -> None:
        had = self._held.get(request)
        self._held[request] = (tenant, blocks)
        self._count(tenant, int(had is None), blocks - (had[1] if had else 0))

    def _count(self, tenant: TenantId, seats: int, blocks: int) -> None:
        had_seats, had_blocks = self._by_tenant.get(tenant, (0, 0))
        self._blocks += blocks
        if had_seats + seats:
            self._by_tenant[tenant] = (had_seats + seats, had_blocks + blocks)
        else:
            self._by_tenant.pop(tenant, None)
