"""CPU taken: other processes of the machine use its cores, so a gateway waits for one.

The gateway waits for a core longer than it computes; if it computes all the time, it is gateway-bound. Full engines on
a CPU take the cores as well: then this case is an effect of saturated engines.
"""

from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

STARVED_RATIO = 0.1
"""Part of the time without a core: below it, other programs add less than an eighth to each computation."""
BUSY_RATIO = 0.8
"""Part of the time that the loop computes or would compute: from it on, the gateway itself is the bottleneck."""
MOSTLY = 0.5
"""Waiting part of the time in which the loop computes or waits for a core."""

REMEDIES = (
    remedy(
        "See how much CPU the platform's own processes use; `top` shows the others.", Cost.NOTHING, "penstock status"
    ),
    remedy("Run gateways on machines without other programs.", Cost.CAPACITY),
    remedy("Move the other programs away, or bound their CPU.", Cost.WORK),
)


def judge(snapshot: Snapshot) -> Judgement:
    starved, wants = snapshot.gateway.loop_starved_ratio, snapshot.gateway.loop_wants_ratio
    return Judgement(
        case=Case.CPU_TAKEN,
        says="Other processes use the machine's cores: a gateway was ready to compute, and waited for a core.",
        subject=snapshot.gateway.name,
        harms=tuple(Indicator),
        brings=frozenset({Case.LIMITS_SLOW, Case.PREFILL_INTERFERENCE}),
        evidence=(
            at_least(
                "the event loop waits for a core, of the time",
                f'{names.LOOP_SECONDS.name}{{state="starved"}}',
                starved,
                STARVED_RATIO,
                Unit.RATIO,
            ),
            at_least(
                "it waits for a core longer than it computes",
                names.LOOP_SECONDS.name,
                None if starved is None or not wants else starved / wants,
                MOSTLY,
                Unit.RATIO,
            ),
            below("on cores of its own it would have room", names.LOOP_SECONDS.name, wants, BUSY_RATIO, Unit.RATIO),
        ),
        remedies=REMEDIES,
    )
