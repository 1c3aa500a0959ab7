"""A request's cost to the engine, in tokens of service."""

import math
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.ids import NO_VERSION, RequestId, TenantId, VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT


def cost(prompt_tokens: int, output_tokens: int) -> float:
    return PROMPT_WEIGHT * prompt_tokens + OUTPUT_WEIGHT * output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A request as the queue sees it; ``deadline_at`` and ``start_by`` are in the queue's seconds, 0 for none.

    Tokens are sums over all prompts and sequences. ``prompts`` and ``sequences`` are those in the engine at once,
    ``part`` is their part of all.
    """

    request: RequestId
    tenant: TenantId
    standing: Standing
    weight: float
    prompt_tokens: int
    expected_output_tokens: int
    deadline_at: float = 0.0
    start_by: float = 0.0
    """The end of the permitted wait by its queue timeout."""
    sequences: int = 1
    """Sequences decoded at once: prompts times choices, with a slot each."""
    prompts: int = 1
    part: float = 1.0
    work_tokens: int = 0
    """CPU work beside the prompt (grammar, template, log probabilities), as prompt tokens."""
    reserved: float = 0.0
    """The part of the engine reserved for its tenant by its plan."""
    kv_part: float = 0.0
    """The most of the engine's KV blocks that its tenant may hold; 0 for no bound."""
    kv_waits: bool = True
    """Whether it waits beyond that part, or is refused."""
    stops_until: float = 0.0
    """The second until which it stands still while interactive requests are about; 0 if it doesn't."""
    adapter: VersionId = NO_VERSION
    """The adapter that answers the request; empty for the engine's own version."""

    @property
    def prompt_at_once(self) -> int:
        return self.prompt_tokens if self.part == 1.0 else math.ceil(self.prompt_tokens * self.part)

    @property
    def cost(self) -> float:
        """Expected tokens of service; at least 1, so that nothing is free."""
        return max(1.0, cost(self.prompt_tokens + self.work_tokens, self.expected_output_tokens))


class Fit(StrEnum):
    YES = "yes"
    OVER_SHARE = "over_share"
    """There is room, but not for this tenant or so large a request: others may overtake it freely."""
    OVER_KV = "over_kv"
    """Its tenant holds its part of the KV blocks: others overtake it freely, and it earns no later service."""
    AFTER_YOU = "after_you"
    """There is room, but a request that goes first is expected soon: others may overtake this one freely."""
    NO_SLOT = "no_slot"
    """Its adapter isn't in the engine's batch: others may overtake it freely, until it has waited its bound."""
    SOON = "soon"
    """Prompts in prefill leave no room for a step or two: all requests wait for it."""
    CLOSED = "closed"
    """No slot is open to its standing now: other flows of the level needn't be examined."""
    NO_ROOM = "no_room"
    """It needs more than is free: smaller work may overtake it, a bounded number of times."""
