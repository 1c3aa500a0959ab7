"""Limits store slow: admission waits for the store shared by gateways.

A busy event loop makes every answer late, also this store's; so late timers rule the case out.
"""

from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

SLOW_S = 0.025
"""A slow answer in seconds: a store in the same zone answers within a millisecond, and admission asks once."""
LATE_S = 0.01
WAY = tuple(stage for stage in Stage if stage not in (Stage.UPLOAD, Stage.DECODE, Stage.RELAY))
"""The stages of a time to first token."""
PART_OF_WAY = 0.2
"""Admission's part of the time to first token: below it, another stage breaks the promise."""

REMEDIES = (
    remedy(
        "While the store is away for long, let each gateway give its part.",
        Cost.RESTART,
        setting="PENSTOCK_LIMITS_WHEN_AWAY",
    ),
    remedy("Put the store near the gateways, alone on its machine.", Cost.WORK, setting="PENSTOCK_LIMITS_URL"),
)


def judge(snapshot: Snapshot) -> Judgement:
    admission = snapshot.stage(Stage.ADMISSION)
    shared = None if snapshot.shares_limits is None else float(snapshot.shares_limits)
    return Judgement(
        case=Case.LIMITS_SLOW,
        says="Admission waits for the store that limits are counted in.",
        harms=(Indicator.TTFT, Indicator.LATENCY, Indicator.AVAILABILITY),
        evidence=(
            at_least("limits are counted in a store that gateways share", names.LIMITS_REACH.name, shared, 1.0),
            at_least(
                "admission takes long (95th percentile)",
                f'{names.STAGE_SECONDS.name}{{stage="{Stage.ADMISSION}"}}',
                admission.p95_s if admission else None,
                SLOW_S,
                Unit.SECONDS,
            ),
            at_least(
                "admission takes a large part of the time to first token",
                names.STAGE_SECONDS.name,
                snapshot.part(Stage.ADMISSION, WAY),
                PART_OF_WAY,
                Unit.RATIO,
            ),
            below(
                "the gateway's own timers are in time (95th percentile)",
                names.LOOP_LAG_SECONDS.name,
                snapshot.gateway.loop_lag_p95_s,
                LATE_S,
                Unit.SECONDS,
            ),
        ),
        remedies=REMEDIES,
    )
