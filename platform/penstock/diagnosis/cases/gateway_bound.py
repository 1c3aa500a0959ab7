"""Gateway-bound: a gateway's event loop computes all the time, so all requests through it wait.

Late timers alone are no evidence: a loop that waits for something else is late as well. Time in which the loop is
runnable without a core counts too: that gateway lacks CPU.
"""

from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

BUSY_RATIO = 0.8
"""Busy part of the time: at this value the average event waits four times its own time (M/M/1: 0.8 / 0.2)."""
LATE_S = 0.01
"""A tenth of the promised time between two tokens."""

REMEDIES = (
    remedy(
        "Bound the tenant with most requests: requests over its rate are refused at little cost.",
        Cost.NOTHING,
        "penstock tenants plan TENANT requests_per_min=600",
    ),
    remedy("Read large requests in more child processes.", Cost.RESTART, setting="PENSTOCK_READ_PROCESSES"),
    remedy("Run more gateways; they share limits by a store.", Cost.CAPACITY, setting="PENSTOCK_GATEWAYS"),
)


def judge(snapshot: Snapshot) -> Judgement:
    gateway = snapshot.gateway
    return Judgement(
        case=Case.GATEWAY_BOUND,
        says="A gateway's event loop computes all the time, or would.",
        subject=gateway.name,
        harms=tuple(Indicator),
        brings=frozenset({Case.LIMITS_SLOW, Case.PREFILL_INTERFERENCE}),
        evidence=(
            at_least(
                "the event loop computes, or waits for a core",
                names.LOOP_SECONDS.name,
                gateway.loop_wants_ratio,
                BUSY_RATIO,
                Unit.RATIO,
            ),
            at_least(
                "its timers run late (95th percentile)",
                names.LOOP_LAG_SECONDS.name,
                gateway.loop_lag_p95_s,
                LATE_S,
                Unit.SECONDS,
            ),
        ),
        remedies=REMEDIES,
    )
