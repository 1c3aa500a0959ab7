"""The engine's batch slots and KV blocks, by tenant and standing; tenants' shares are in ``shares``.

A request enters only when the blocks of its prompt and expected output are free, so the engine does not queue. A
request holds a slot for each of its sequences; those of one prompt share its full blocks.

Trade-off: booking the expectation instead of ``max_tokens`` may preempt if many answers run long.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.work import Fit, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSize:
    max_seqs: int
    kv_blocks: int
    block_size: int
    watermark: float = 0.02
    """The part of the blocks left free for running requests to grow into."""
    prefill_tokens: int = 256
    """Prompt tokens of one engine step: with as many in prefill, the next request waits here instead of in the
    engine.
    """

    preempts: bool = False
    """True if the engine preempts tenants above their share for another tenant's first prompt."""
    time_shares: bool = False
    """True if tenants share the engine by time: a slot there blocks no other tenant."""
    long_prefill_tokens: int = 0
    """The most tokens of one prompt in a step, if its request is not the only one; 0 for no bound."""

    def in_a_step(self, prompt_tokens: int) -> int:
        return min(prompt_tokens, self.long_prefill_tokens) if self.long_prefill_tokens else prompt_tokens

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def blocks_of(self, work: Work, output_tokens: int) -> int:
        """Return the blocks with these output tokens in all: prompts count once."""
        if work.part < 1.0:
            output_tokens = math.ceil(output_tokens * work.part)
        if work.sequences == 1:
            return self.blocks(work.prompt_at_once + output_tokens)
        shared, own = divmod(math.ceil(work.prompt_at_once / work.prompts), self.block_size)
        return work.prompts * shared + work.sequences * self.blocks(own + math.ceil(output_tokens / work.sequences))

    @property
    def usable(self) -> float:
        return self.kv_blocks * (1 - self.watermark)


class Room(NamedTuple):
    """A tuple, since several are made per request."""

    slots: float = 0
    blocks: float = 0

    def plus(self, other: "Room") -> "Room":
        return Room(self.slots + other.slots, self.blocks + other.blocks)

    def minus(self, other: "Room") -> "Room":
        return Room(self.slots - other.slots, self.blocks - other.blocks)

    def least(self, other: "Room") -> "Room":
        return Room(min(self.slots, other.slots), min(self.blocks, other.blocks))

    def times(self, part: float) -> "Room":
        return Room(self.slots * part, self.blocks * part)

    def takes(self, need: "Room") -> bool:
        return need.slots - 1 < self.slots and need.blocks <= self.blocks

    def takes_one_more(self, held: "Room", need: "Room") -> bool:
        return self.minus(held).takes(need)


class Mix(NamedTuple):
    prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def context_tokens(self) -> float:
        return self.prompt_tokens + self.output_tokens / 2

    def plus(self, work: Work, sign: int = 1) -> "Mix":
        return Mix(
            self.prompt_tokens + sign * work.prompt_at_once, self.output_tokens + sign * work.expected_output_tokens
        )


NOTHING = Room()
_FROM = {one: tuple(other for other in Standing if other >= one) for one in Standing}


@dataclass(slots=True)
class _Seat:
    work: Work
    blocks: int


class Slots:
    """One engine's bookings; ``changes`` counts every change."""

    def __init__(self, size: EngineSize) -> None:
        self._size = size
        self.whole = Room(size.max_seqs, size.usable)
        """All of the engine that may be booked."""
        self.changes = 0
        self.batch_slots: int | None = None
        """Slots that batch work may hold beside other work; None: no bound."""
        self.held = NOTHING
        self._slots: dict[RequestId, _Seat] = {}
        self._by_tenant: dict[TenantId, Room] = {}
        self._up_to = dict.fromkeys(Standing, NOTHING)
        self._prefilling: dict[RequestId, int] = {}
        self.prefill_tokens = 0
        """Prompt tokens of a step that are on their way through prefill."""
        self.mix = Mix()
        self._cost = 0.0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size(self) -> EngineSize:
        return self._size

    @size.setter
    def size(self, size: EngineSize) -> None:
        self._size, self.whole = size, Room(size.max_seqs, size.usable)
        self.changes += 1

    @property
    def saturation(self) -> float:
        """The scarcer of slots and blocks; 1.0 means full."""
        return max(self.held.slots / self.size.max_seqs, self.held.blocks / self.size.usable)

    @property
    def is_full(self) -> bool:
        no_prefill = bool(self._prefilling) and self.prefill_tokens >= self.size.prefill_tokens
        return bool(self._slots) and (self.saturation >= 1.0 or no_prefill)

    @property
    def mean_cost(self) -> float:
        """Mean cost of running requests: about that much work frees a slot."""
        return self._cost / len(self._slots) if self._slots else 0.0

    def need(self, work: Work) -> Room:
        return Room(work.sequences, self.size.blocks_of(work, work.expected_output_tokens))

    def places_for(self, work: Work) -> float:
        """Requests like this one in an empty engine, by slots or KV blocks."""
        need = self.need(work)
        return min(self.whole.slots, self.whole.blocks / max(1.0, need.blocks) * need.slots)

    def held_by(self, tenant: TenantId) -> Room:
        return self._by_tenant.get(tenant, NOTHING)

    def holders(self) -> Iterable[tuple[TenantId, Room]]:
        return self._by_tenant.items()

    def held_up_to(self, standing: Standing) -> Room:
        return self._up_to[standing]

    def room_for(self, work: Work, *, prefill_part: float = 1.0) -> Fit:
        """Compare with slots, blocks and the prefill part of a step.

        A request above every bound still fits into an empty engine.
        """
        if not self._slots:
            return Fit.YES
        if not self.whole.takes_one_more(self.held, self.need(work)):
            return Fit.NO_ROOM
        own = self.size.in_a_step(work.prompt_at_once) if self.held_by(work.tenant).slots else 0
        crowded = self.prefill_tokens + own > self.size.prefill_tokens * prefill_part
        return Fit.SOON if self._prefilling and crowded else Fit.YES

    def take(self, work: Work) -> None:
        """Book the slots and blocks; the prompt prefills until ``prefilled``."""
        tokens = self.size.in_a_step(work.prompt_at_once)
        self._prefilling[work.request] = tokens
        self.prefill_tokens += tokens
        need = self.need(work)
        self._slots[work.request] = _Seat(work, int(need.blocks))
        self._cost += work.cost
        self.mix = self.mix.plus(work)
        self._count(work, need)

    def prefilled(self, request: RequestId) -> None:
        self.prefill_tokens -= self._prefilling.pop(request, 0)

    def grow(self, work: Work, output_tokens: int) -> None:
        slot, blocks = self._slots[work.request], self.size.blocks_of(work, output_tokens)
        if blocks > slot.blocks:
            self._count(work, Room(0, blocks - slot.blocks))
            slot.blocks = blocks

    def recount(self, work: Work, output_tokens: int) -> None:
        """Take the counted prompt, and the expected output or the longer real one."""
        slot = self._slots[work.request]
        blocks = self.size.blocks_of(work, max(work.expected_output_tokens, output_tokens))
        self._count(work, Room(0, blocks - slot.blocks))
        self._cost += work.cost - slot.work.cost
        self.mix = self.mix.plus(slot.work, -1).plus(work)
        slot.work, slot.blocks = work, blocks

    def leave(self, request: RequestId) -> None:
        self.prefilled(request)
        slot = self._slots.pop(request, None)
        if slot is not None:
            self._cost = self._cost - slot.work.cost if self._slots else 0.0
            self.mix = self.mix.plus(slot.work, -1)
            self._count(slot.work, Room(-slot.work.sequences, -slot.blocks))

    def _count(self, work: Work, change: Room) -> None:
        self.changes += 1
        self.held = self.held.plus(change)
        for standing in _FROM[work.standing]:
            self._up_to[standing] = self._up_to[standing].plus(change)
        left = self.held_by(work.tenant).plus(change)
        if left.slots:
            self._by_tenant[work.tenant] = left
        else:
            self._by_tenant.pop(work.tenant, None)
