"""A ticket as the door's work, and whether one request may have so much of this engine at all. Pure.

The second wall: a gateway with an old table may not know how many sequences an engine decodes, and none knows its KV
blocks. What the engine can't hold at once even with no output would only stand in its own queue, where nobody is fair.
"""

from penstock.domain.cost import most_sequences
from penstock.domain.ids import RequestId
from penstock.domain.ticket import Ticket
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.seats import EngineSize


def work_of(ticket: Ticket, request: RequestId, size: EngineSize, *, deadline_at: float) -> Work:
    """Return what the door works with; ``deadline_at`` in the door's seconds.

    Vectors are through in a step each: however many, they never hold more seats than there are.
    """
    makes_vectors = not ticket.expected_output_tokens
    return Work(
        request=request,
        tenant=ticket.tenant,
        standing=ticket.standing,
        weight=max(1.0, ticket.weight),
        prompt_tokens=ticket.prompt_tokens,
        expected_output_tokens=ticket.expected_output_tokens,
        work_tokens=ticket.work_tokens,
        deadline_at=deadline_at,
        reserved=ticket.reserved,
        prompts=min(ticket.prompts, size.max_seqs) if makes_vectors else ticket.prompts,
        sequences=min(ticket.sequences, size.max_seqs) if makes_vectors else ticket.sequences,
    )


def excess(work: Work, size: EngineSize) -> str:
    """Return what the request needs beyond what one may have, in words for its caller; nothing where it may run."""
    if not work.expected_output_tokens:
        return ""
    most = most_sequences(size.max_seqs)
    if work.sequences > most:
        return f"{work.sequences} sequences at once, of which one request may have {most}"
    blocks = size.blocks_of(work, 0)
    if blocks > size.kv_blocks:
        needs, has = blocks * size.block_size, size.kv_blocks * size.block_size
        return f"KV cache for {needs} tokens for its prompts alone, of {has} that there are"
    return ""
