"""One tenant starves others within its rate limits: it gets most of the service, and the others wait.

Service is counted when it ends: beside a flood that waits, a tenant of little traffic may have most of it, and harms no
other.
"""

from penstock.diagnosis.cases.fullest import engine_of, queueing
from penstock.diagnosis.evidence import Case, Cost, Judgement, Remedy, Unit, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot, TenantFigures
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names
from penstock.telemetry.tenants import OTHER

MOST_OF_SERVICE = 0.5
LONG_WAIT_S = 0.5
"""Half of the promised time to the first token."""
AS_LONG = 0.5
"""Others wait at least half as long as the tenant that causes it: a fair queue would let them wait far less."""


def judge(snapshot: Snapshot) -> Judgement:
    most, others = _parted(snapshot)
    their_wait = _longest(others)
    return Judgement(
        case=Case.STARVED_TENANTS,
        says="One tenant has most of the service, and the others wait for it.",
        subject=most.name if most else "",
        harms=(Indicator.TTFT, Indicator.LATENCY, Indicator.AVAILABILITY),
        brings=frozenset({Case.ENGINE_SATURATED}),
        evidence=(
            at_least(
                "one tenant has most of the service",
                f"{names.PROMPT_TOKENS.name}, {names.OUTPUT_TOKENS.name} by tenant",
                most.share if most and others else None,
                MOST_OF_SERVICE,
                Unit.RATIO,
            ),
            at_least(
                "other tenants wait long (mean of the longest waiting tenant)",
                names.TENANT_QUEUE_SECONDS.name,
                their_wait,
                LONG_WAIT_S,
                Unit.SECONDS,
            ),
            at_least(
                "they wait as long as that tenant itself, or nearly",
                names.TENANT_QUEUE_SECONDS.name,
                _as_long(their_wait, most.queue_mean_s if most else None),
                AS_LONG,
                Unit.RATIO,
            ),
            below(
                "neither its limits nor its own queue refuse it",
                f'{names.REQUESTS.name}{{outcome="over_limit"}}',
                most.over_limit if most else None,
                1.0,
            ),
            below(
                "most of the requests that wait are another tenant's",
                names.TENANT_QUEUE_SECONDS.name,
                float(snapshot.loudest not in (None, most)),
                1.0,
            ),
            queueing(engine_of(snapshot)),
        ),
        remedies=_remedies(most.name if most else "TENANT"),
    )


def _parted(snapshot: Snapshot) -> tuple[TenantFigures | None, tuple[TenantFigures, ...]]:
    named = [one for one in snapshot.tenants if one.name != OTHER]
    most = max(named, key=lambda one: one.share or 0.0, default=None)
    return most, tuple(one for one in snapshot.tenants if one is not most)


def _longest(tenants: tuple[TenantFigures, ...]) -> float | None:
    return max((one.queue_mean_s for one in tenants if one.queue_mean_s is not None), default=None)


def _as_long(their_wait: float | None, own_wait: float | None) -> float | None:
    return None if their_wait is None or own_wait is None else their_wait / max(own_wait, LONG_WAIT_S)


def _remedies(tenant: str) -> tuple[Remedy, ...]:
    return (
        remedy(
            "Give it the weight of the others: queues serve by weight.",
            Cost.NOTHING,
            f"penstock tenants plan {tenant} weight=1",
        ),
        remedy(
            "Bound how many of its requests run at a time.",
            Cost.NOTHING,
            f"penstock tenants plan {tenant} max_concurrent=16",
        ),
        remedy(
            "Reserve a part of each engine for a tenant that must not wait.",
            Cost.NOTHING,
            "penstock tenants plan OTHER reserved=0.25",
        ),
    )
