"""Outcomes of requests and stages of their time: closed sets that are metric labels.

After the first byte there is no status code, so SLOs count outcomes.
"""

from enum import StrEnum

TENANT_QUEUE = "tenant_queue"
"""Refusal reason: the tenant's own waiting requests; without them it would have been queued."""
OWN_QUEUE = "too many requests of this tenant wait already"
"""The same in words."""
TENANT_KV = "tenant_kv"
"""A worker's reason, never a caller's: the tenant's requests hold its part of the engine's KV cache."""
ADAPTER_LOADING = "adapter_loading"
"""Refusal reason: the request's adapter is being loaded."""
OUTSIDE_POOLS = "pool"
"""Refusal reason: no worker is in the pools that the plan names for batch work."""
POOL_PINNED = "pool_pinned"
"""Refusal reason: pinned versions hold all the memory, until an operator changes that."""


class Outcome(StrEnum):
    OK = "ok"
    BAD_REQUEST = "bad_request"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    OVER_LIMIT = "over_limit"
    OVER_BUDGET = "over_budget"
    NO_CAPACITY = "no_capacity"
    EVICTED = "evicted"
    DEADLINE = "deadline"
    OWN_DEADLINE = "own_deadline"
    """The caller's deadline was shorter than the promised times."""
    CANCELLED = "cancelled"
    ENGINE_ERROR = "engine_error"
    BROKEN_STREAM = "broken_stream"
    SLOW_READER = "slow_reader"
    INTERNAL = "internal"
    FILTERED = "filtered"
    """A safety pack refused the prompt, or ended the answer."""

    @property
    def spends_error_budget(self) -> bool:
        return self in _OURS

    @property
    def is_answer(self) -> bool:
        """Whether what was delivered has a proper end: it is stored, billed, and not made again."""
        return self in (Outcome.OK, Outcome.FILTERED)


def outcome_of(outcome: Outcome, reason: str | None = None, *, is_own: bool = False) -> Outcome:
    """A refusal by the tenant's own full queue counts as one by a limit; ``is_own``: the caller caused the end."""
    if reason == TENANT_QUEUE and outcome in _BY_QUEUES:
        return Outcome.OVER_LIMIT
    return _OF_THE_CALLER.get(outcome, outcome) if is_own else outcome


_OURS = frozenset(
    {
        Outcome.NO_CAPACITY,
        Outcome.EVICTED,
        Outcome.DEADLINE,
        Outcome.ENGINE_ERROR,
        Outcome.BROKEN_STREAM,
        Outcome.INTERNAL,
    }
)
_BY_QUEUES = frozenset({Outcome.NO_CAPACITY, Outcome.EVICTED, Outcome.DEADLINE})
_OF_THE_CALLER = {
    Outcome.DEADLINE: Outcome.OWN_DEADLINE,
    Outcome.ENGINE_ERROR: Outcome.BAD_REQUEST,
    Outcome.BROKEN_STREAM: Outcome.BAD_REQUEST,
}


class Degradation(StrEnum):
    """Reduction of an answer that a tenant prefers to a refusal (C6)."""

    OUTPUT_CAPPED = "output-capped"
    SMALLER_MODEL = "smaller-model"


class Stage(StrEnum):
    """Stages of a request in order; each has a latency histogram."""

    EDGE = "edge"
    AUTH = "auth"
    UPLOAD = "upload"
    """The caller sends the body; no promise counts this time."""
    PREPROCESS = "preprocess"
    ADMISSION = "admission"
    WAKE = "wake"
    """The request is held until a worker of its version serves again."""
    ROUTE = "route"
    ADAPTER = "adapter"
    """The request waits at the worker for its adapter: until it is loaded, or has a slot of the batch."""
    QUEUE = "queue"
    BATCH_WAIT = "batch_wait"
    """The request has passed the queue, and waits for other items of its batch."""
    PREPARE = "prepare"
    """A model's handler turns the input into tensors at the worker: an image is decoded there."""
    COMPUTE = "compute"
    """A batch of a model with a handler is computed."""
    PREFILL = "prefill"
    DECODE = "decode"
    RELAY = "relay"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    ERROR = "error"
