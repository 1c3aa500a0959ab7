"""The number of gateway processes: requests a second, each with the CPU that gateways spend on one, and their loops'
delay. Pure. A gateway is one event loop, so one core. Gateways are scaled apart from engines: they have no GPU and
start within seconds.
"""

import math
from dataclasses import dataclass, replace

from penstock.domain.fleet.demand import Demand
from penstock.scaling.constants import GATEWAY_LAG_MOST_S, GATEWAY_TARGET_LOAD
from penstock.scaling.pace import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    least: int
    most: int


def gateways(pace: Pace, demand: Demand, bounds: GatewayBounds, now: float) -> Pace:
    """Gateways are added at once, and removed as slowly as workers."""
    requests = sum(rate.requests for one in demand.versions.values() for rate in one.rates.values())
    need = requests * demand.request_cpu_s / GATEWAY_TARGET_LOAD
    if demand.loop_lag_s > GATEWAY_LAG_MOST_S:
        need = max(need, float(demand.gateways + 1))
    is_known = demand.is_known and bool(demand.request_cpu_s or not requests)
    pace = pace.noting(need, demand.gateways, now) if is_known else pace.holding(demand.gateways, now)
    number = max(bounds.least, min(bounds.most, math.ceil(need - 1e-9)))
    count = pace.steps_in(now, bounds.least) if is_known else 0
    workers = min(bounds.most, max(number, pace.workers - count))
    return replace(pace, workers=workers, in_at=now if workers < pace.workers else pace.in_at)
