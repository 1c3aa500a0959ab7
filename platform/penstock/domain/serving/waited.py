"""A request's wait in a worker's queue, as its gate reports it: predicted and real wait, and the requests before
it.

Other tenants appear as counts only.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    standing: str
    own: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The wait in seconds; ``share`` is the tenant's part of the engine; ``waiting`` requests of ``tenants``
    tenants were queued before it.
    """

    predicted_s: float = 0.0
    waited_s: float = 0.0
    share: float | None = None
    waiting: int = 0
    tenants: int = 0
    ahead: tuple[Ahead, ...] = ()


AT_ONCE = Waited()
