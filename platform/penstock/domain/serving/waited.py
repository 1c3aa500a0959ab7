"""How a request fared at a worker's door, as its gate tells the gateway: predicted and real wait, who went before it.

Other tenants are counts only. On the wire (docs/reference/wire.md): ``predicted,waited,share,waiting,tenants``, and for
each standing of which requests went in meanwhile ``,standing:own:others``. A share is empty where the door has none.
"""

from dataclasses import dataclass

from penstock.domain.tenancy.standing import Standing

HEADER = "x-penstock-door"
MOST_CHARS = 512
TENANT_QUEUE = "tenant_queue"
"""The reason of a refusal for what its own tenant has waiting: without that it would have been let wait."""
ADAPTER_LOADING = "adapter_loading"
"""The reason of a refusal for the time that its adapter's load takes."""
POOL_PINNED = "pool_pinned"
"""The reason of a refusal where pinned versions hold all the memory: until an operator changes that, nobody serves."""
_STANDINGS = frozenset(one.name.lower() for one in Standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How many of one standing entered the engine while the request waited: of its own tenant, and of all others."""

    standing: str
    own: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Seconds; ``share`` is the tenant's part of the engine; ``waiting`` and ``tenants`` are those it found there."""

    predicted_s: float = 0.0
    waited_s: float = 0.0
    share: float | None = None
    waiting: int = 0
    tenants: int = 0
    ahead: tuple[Ahead, ...] = ()


AT_ONCE = Waited()
"""Nobody was in its way."""
_AT_ONCE_TOLD = b"0.000,0.000,,0,0"


def told(waited: Waited) -> bytes:
    """Return the header's value."""
    if waited is AT_ONCE:
        return _AT_ONCE_TOLD
    share = "" if waited.share is None else f"{waited.share:.4f}"
    head = f"{waited.predicted_s:.3f},{waited.waited_s:.3f},{share},{waited.waiting},{waited.tenants}"
    return "".join([head, *(f",{one.standing}:{one.own}:{one.others}" for one in waited.ahead)]).encode()


def heard(value: str) -> Waited | None:
    """Return what a gate told; None where it told nothing, or nonsense."""
    try:
        predicted, waited, share, waiting, tenants, *ahead = value.split(",")
        return Waited(
            predicted_s=float(predicted),
            waited_s=float(waited),
            share=float(share) if share else None,
            waiting=int(waiting),
            tenants=int(tenants),
            ahead=tuple(_ahead(one) for one in ahead),
        )
    except ValueError:
        return None


def _ahead(text: str) -> Ahead:
    standing, own, others = text.split(":")
    if standing not in _STANDINGS:
        raise ValueError(standing)
    return Ahead(standing=standing, own=int(own), others=int(others))
