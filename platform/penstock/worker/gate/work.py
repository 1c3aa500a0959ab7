"""An engine's queue, the conversion of a ticket to work for it, and one request's bounds there. Pure.

A second check after the gateway's: a gateway with an old table may not know the batch size, and none knows the KV
blocks.
"""

import sys

from penstock.domain.ids import RequestId
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.cost import most_sequences
from penstock.worker.engines.standstill import stops_until
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import KEPT_PART
from penstock.worker.gate.queueing.residents import Residents
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work
from penstock.worker.gate_config import GateConfig


def queue_of(config: GateConfig) -> AdmissionQueue:
    """Bound it by slots alone until the engine has reported its KV blocks."""
    size = EngineSize(
        max_seqs=config.max_num_seqs,
        kv_blocks=sys.maxsize,
        block_size=config.block_size,
        prefill_tokens=config.max_num_batched_tokens,
        long_prefill_tokens=config.long_prefill_tokens,
        preempts=config.preempts,
        time_shares=config.time_shares,
    )
    adapters = AdapterSlots(config.adapter_slots, Residents(config.adapters_kept)) if config.adapter_slots else None
    return AdmissionQueue(size, adapters=adapters)


def work_of(ticket: Ticket, request: RequestId, size: EngineSize, *, clocks_apart: float, now: float) -> Work:
    """``clocks_apart``: the queue's clock minus the ticket's; ``now`` is the queue's."""
    prompts = max(1, ticket.prompts)
    choices = max(1, -(-ticket.sequences // prompts))
    at_once = min(prompts, max(1, int(size.max_seqs * KEPT_PART) // choices))
    return Work(
        request=request,
        tenant=ticket.tenant,
        standing=ticket.standing,
        weight=max(1.0, ticket.weight),
        prompt_tokens=ticket.prompt_tokens,
        expected_output_tokens=ticket.expected_output_tokens,
        work_tokens=ticket.work_tokens,
        deadline_at=ticket.deadline_at + clocks_apart,
        start_by=ticket.start_by and ticket.start_by + clocks_apart,
        reserved=ticket.reserved,
        kv_part=ticket.kv_part,
        kv_waits=ticket.kv_waits,
        stops_until=stops_until(ticket.deadline_at + clocks_apart, now) if ticket.yields else 0.0,
        prompts=at_once,
        sequences=choices * at_once,
        part=at_once / prompts,
        adapter=ticket.adapter,
    )


def excess(ticket: Ticket, work: Work, size: EngineSize) -> str:
    """The need that exceeds one request's bounds, in the caller's terms; empty if it may run."""
    if not work.expected_output_tokens:
        return ""
    most = most_sequences(size.max_seqs)
    if ticket.sequences > most:
        return f"{ticket.sequences} sequences at once, of which one request may have {most}"
    blocks = size.blocks_of(work, 0)
    if blocks > size.kv_blocks:
        needs, has = blocks * size.block_size, size.kv_blocks * size.block_size
        return f"KV cache for {needs} tokens for its prompts alone, of {has} that there are"
    return ""
