"""Which endpoints get a connection now, so that a receiver that hangs costs only its own deliveries time.

Every endpoint's first connection comes before any endpoint's second. Failing endpoints have one at most and never all;
further ones are for endpoints that answer.

Trade-off: an endpoint with a long queue is served at 16 deliveries a round at most.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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
MOST_AT_ONCE: Final = 128
"""Deliveries begun in one round: each costs a millisecond of CPU, and who comes meanwhile is looked at between."""
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
    """Return the number of deliveries to begin by endpoint, at most ``MOST_AT_ONCE``.

    First connections come first, those of failing endpoints after the others, and each in the order of lateness.
    """
    ordered = sorted(waiting, key=lambda one: -one.late_s)
    answering = [one for one in ordered if not one.is_failing]
    free = min(MOST_FIRST - len(sending), MOST_AT_ONCE)
    chosen = _firsts(answering, sending, free)
    failing_now = sum(one.is_failing for one in sending.values())
    failing = [one for one in ordered if one.is_failing]
    chosen |= _firsts(failing, sending, min(free - len(chosen), MOST_FAILING - failing_now))
    _add_more(chosen, answering, sending)
    return chosen


def _firsts(
    waiting: Sequence[WaitingEndpoint], sending: Mapping[EndpointId, Sending], most: int
) -> dict[EndpointId, int]:
    return {one.endpoint: 1 for one in [one for one in waiting if one.endpoint not in sending][: max(0, most)]}


def _add_more(
    chosen: dict[EndpointId, int], answering: Sequence[WaitingEndpoint], sending: Mapping[EndpointId, Sending]
) -> None:
    by_tenant: Counter[TenantId] = Counter()
    for held in sending.values():
        by_tenant[held.tenant] += held.count - 1
    free = min(MOST_MORE - by_tenant.total(), MOST_AT_ONCE - len(chosen))
    for one in answering:
        has, first = sending.get(one.endpoint), chosen.get(one.endpoint, 0)
        if (has is None and not first) or (has is not None and (has.is_slow or has.is_failing)):
            continue
        open_now = first + (has.count if has else 0)
        more = min(MOST_PER_ENDPOINT - open_now, free, MOST_MORE_PER_TENANT - by_tenant[one.tenant])
        if more > 0:
            chosen[one.endpoint] = first + more
            by_tenant[one.tenant] += more
            free -= more
