"""Gateway-bound: a gateway's event loop computes all the time, so all requests through it wait.

Late timers alone are no evidence: a loop that waits for something else is late as well. Time in which the loop is ready
to compute without a core counts: that gateway is bound by a CPU that it does not get.
"""

from penstock.diagnosis.evidence import Case, Check, Cost, Judgement, Remedy, Unit
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

BUSY_RATIO = 0.8
"""Of the time: a loop so busy lets the average event wait for four times what it takes (M/M/1: 0.8 / 0.2)."""
LATE_S = 0.01
"""A tenth of what is promised between two tokens."""

REMEDIES = (
    Remedy(
        says="Bound who sends most requests: those over their rate are refused before they cost much.",
        cost=Cost.NOTHING,
        command="penstock tenants plan TENANT requests_per_min=600",
    ),
    Remedy(
        says="Read large requests in more child processes.",
        cost=Cost.RESTART,
        setting="PENSTOCK_READ_PROCESSES",
    ),
    Remedy(
        says="Run more gateways; they share limits by a store.",
        cost=Cost.CAPACITY,
        setting="PENSTOCK_GATEWAYS",
    ),
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
            Check(
                says="the event loop computes, or waits for a core",
                metric=names.LOOP_SECONDS.name,
                value=gateway.loop_wants_ratio,
                limit=BUSY_RATIO,
                unit=Unit.RATIO,
            ),
            Check(
                says="its timers run late (95th percentile)",
                metric=names.LOOP_LAG_SECONDS.name,
                value=gateway.loop_lag_p95_s,
                limit=LATE_S,
                unit=Unit.SECONDS,
            ),
        ),
        remedies=REMEDIES,
    )
