"""Which endpoints get a connection now, so that a receiver that hangs costs only its own deliveries time.

Every endpoint's first connection comes before any endpoint's second. Failing endpoints have one at most and never all;
further ones are for endpoints that answer.

Trade-off: an endpoint with a long queue is served at 16 deliveries a round at most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import EndpointId
from penstock.domain.jobs.webhook import WaitingEndpoint

MOST_FIRST: Final = 1_536
"""Endpoints with a connection, of one runner: a thousand that hang leave a third to all others."""
MOST_FAILING: Final = 1_024
"""Of these, endpoints whose last attempt failed."""
MOST_MORE: Final = 512
"""Connections beyond an endpoint's first, of one runner."""
MOST_PER_ENDPOINT: Final = 16
"""Connections of an endpoint that answers: few receivers stand more at once."""
MOST_MORE_PER_TENANT: Final = 64
"""Connections beyond the first of a tenant's endpoints together: an eighth of all of them."""
SLOW_S: Final = 1.0
"""Seconds of an unanswered attempt after which its endpoint gets no second connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The open attempts of one endpoint, of this runner."""

    tenant: TenantId
    count: int
    is_failing: bool
    is_slow: bool


def choose(waiting: Sequence[WaitingEndpoint], sending: Mapping[EndpointId, Sending]) -> dict[EndpointId, int]:
    """Return the number of deliveries to begin by endpoint; those that failed last come last."""
    chosen = _firsts(waiting, sending)
    free, by_tenant = _more(sending.values())
    for one in waiting:
        has = sending.get(one.endpoint)
        is_slow = one.is_failing or (has is not None and (has.is_slow or has.is_failing))
        open_now = (has.count if has else 0) + chosen.get(one.endpoint, 0)
        if is_slow or not open_now:
            continue
        more = min(MOST_PER_ENDPOINT - open_now, free, MOST_MORE_PER_TENANT - by_tenant[one.tenant])
        if more > 0:
            chosen[one.endpoint] = chosen.get(one.endpoint, 0) + more
            by_tenant[one.tenant] += more
            free -= more
    return chosen


def _firsts(waiting: Sequence[WaitingEndpoint], sending: Mapping[EndpointId, Sending]) -> dict[EndpointId, int]:
    free = MOST_FIRST - len(sending)
    failing = MOST_FAILING - sum(one.is_failing for one in sending.values())
    chosen: dict[EndpointId, int] = {}
    for one in sorted(waiting, key=lambda one: (one.is_failing, -one.late_s)):
        if one.endpoint in sending or free <= 0 or (one.is_failing and failing <= 0):
            continue
        chosen[one.endpoint] = 1
        free -= 1
        failing -= one.is_failing
    return chosen


def _more(sending: Iterable[Sending]) -> tuple[int, Counter[TenantId]]:
    by_tenant: Counter[TenantId] = Counter()
    for one in sending:
        by_tenant[one.tenant] += one.count - 1
    return MOST_MORE - by_tenant.total(), by_tenant
