"""Limits store slow: admission waits for the store that gateways share.

A busy event loop makes every answer late, also this store's; so late timers rule the case out.
"""

from penstock.diagnosis.evidence import Case, Check, Cost, Judgement, Remedy, Sense, Unit
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

SLOW_S = 0.025
"""A store in the same zone answers within a millisecond; admission asks it once."""
LATE_S = 0.01
FIRST = (Stage.EDGE, Stage.AUTH, Stage.PREPROCESS, Stage.ADMISSION, Stage.ROUTE)
MOST_OF_THE_WAY = 0.5

REMEDIES = (
    Remedy(
        says="While the store is away for long, let each gateway give its part.",
        cost=Cost.RESTART,
        setting="PENSTOCK_LIMITS_WHEN_AWAY",
    ),
    Remedy(
        says="Put the store near the gateways, alone on its machine.",
        cost=Cost.WORK,
        setting="PENSTOCK_LIMITS_URL",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    admission = snapshot.stage(Stage.ADMISSION)
    shared = None if snapshot.shares_limits is None else float(snapshot.shares_limits)
    return Judgement(
        case=Case.LIMITS_SLOW,
        says="Admission waits for the store that limits are counted in.",
        harms=(Indicator.TTFT, Indicator.LATENCY, Indicator.AVAILABILITY),
        evidence=(
            Check(
                says="limits are counted in a store that gateways share",
                metric=names.LIMITS_REACH.name,
                value=shared,
                limit=1.0,
            ),
            Check(
                says="admission takes long (95th percentile)",
                metric=f'{names.STAGE_SECONDS.name}{{stage="{Stage.ADMISSION}"}}',
                value=admission.p95_s if admission else None,
                limit=SLOW_S,
                unit=Unit.SECONDS,
            ),
            Check(
                says="most of the way to an engine is admission",
                metric=names.STAGE_SECONDS.name,
                value=snapshot.part(Stage.ADMISSION, FIRST),
                limit=MOST_OF_THE_WAY,
                unit=Unit.RATIO,
            ),
            Check(
                says="the gateway's own timers are in time (95th percentile)",
                metric=names.LOOP_LAG_SECONDS.name,
                value=snapshot.gateway.loop_lag_p95_s,
                limit=LATE_S,
                sense=Sense.BELOW,
                unit=Unit.SECONDS,
            ),
        ),
        remedies=REMEDIES,
    )
