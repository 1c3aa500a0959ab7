"""What the routes beside inference tell of the gateway."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.domain.errors import UnknownRequest
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.tenancy.tenant import Principal

READY_RETRY_S = 1.0


async def _nothing_kept(_who: Principal, _request_id: str) -> object:
    raise UnknownRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the routes tell: the table in use, what is missing before ready, whether anybody could answer."""

    table: Callable[[], RoutingTable]
    missing: Callable[[], str]
    draining: Callable[[], bool] = lambda: False
    serves: Callable[[], bool] = lambda: True
    explain: Callable[[Principal, str], Awaitable[object]] = _nothing_kept
    """Returns what is kept of a request as JSON can say it, or raises ``UnknownRequest``."""
