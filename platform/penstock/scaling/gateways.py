"""The number of gateway processes: requests a second against a process's measured rate, and its loop's delay. Pure.

Gateways are scaled apart from engines: they have no GPU, start within seconds, and are bound by their event loops.
"""

import math
from dataclasses import dataclass, replace

from penstock.domain.fleet.demand import Demand
from penstock.scaling.constants import GATEWAY_LAG_MOST_S, GATEWAY_TARGET_LOAD
from penstock.scaling.pace import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    """Bounds of gateway processes. ``rate_per_s``: requests a second of one process, measured by ``make
    bench-gateway``.
    """

    least: int
    most: int
    rate_per_s: float


def gateways(pace: Pace, demand: Demand, bounds: GatewayBounds, now: float) -> Pace:
    """Return the pace after a tick: it adds gateways at once, and removes them as slowly as workers."""
    requests = sum(rate.requests for one in demand.versions.values() for rate in one.rates.values())
    need = requests / (bounds.rate_per_s * GATEWAY_TARGET_LOAD)
    if demand.loop_lag_s > GATEWAY_LAG_MOST_S:
        need = max(need, float(demand.gateways + 1))
    pace = pace.noting(need, demand.gateways, now) if demand.is_known else pace.holding(demand.gateways, now)
    number = max(bounds.least, min(bounds.most, math.ceil(need - 1e-9)))
    if number > pace.workers:
        return replace(pace, workers=number)
    count = pace.steps_in(now, bounds.least) if demand.is_known else 0
    return replace(pace, workers=pace.workers - count, in_at=now) if count else pace
