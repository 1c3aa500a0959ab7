"""A request's wait at a worker's queue, as its gate reports it: predicted and real wait, and the requests before
it.

Other tenants are counts only.
"""

from dataclasses import dataclass

TENANT_QUEUE = "tenant_queue"
"""The reason of a refusal for what its own tenant has waiting: without that it would have been let wait."""
ADAPTER_LOADING = "adapter_loading"
"""The reason of a refusal for the time that its adapter's load takes."""
POOL_PINNED = "pool_pinned"
"""The reason of a refusal where pinned versions hold all the memory: until an operator changes that, nobody serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    standing: str
    own: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Seconds; ``share`` is the tenant's part of the engine; ``waiting`` and ``tenants`` were there before it."""

    predicted_s: float = 0.0
    waited_s: float = 0.0
    share: float | None = None
    waiting: int = 0
    tenants: int = 0
    ahead: tuple[Ahead, ...] = ()


AT_ONCE = Waited()
