"""Limits store away: gateways do not reach the store of limits and budgets, so requests with a budget are refused.

A full disk refuses requests by the same error; the gateways' reach of the store separates the two.
"""

from penstock.diagnosis.evidence import Case, Check, Cost, Judgement, Unit, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.errors import StoreUnavailable
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

REFUSED_RATIO = 0.01
"""Refused part of requests: ten times the error budget of a 99.9 % objective."""


def store_refused(snapshot: Snapshot) -> Check:
    return at_least(
        "requests are refused because a store is not available",
        f'{names.REFUSALS.name}{{code="{StoreUnavailable.code}"}}',
        snapshot.faults.store_refused_ratio,
        REFUSED_RATIO,
        Unit.RATIO,
    )


AWAY_RATIO = 0.1
"""Part of the time without the store: a reconnection takes less."""

REMEDIES = (
    remedy(
        "See which gateway lost the store, and its error; start Redis or Valkey again at its address.",
        Cost.NOTHING,
        "penstock logs gateway -e limits_store_",
    ),
    remedy(
        "Serve tenants with a budget during a long outage: each gateway then gives its part of the budget.",
        Cost.RESTART,
        setting="PENSTOCK_LIMITS_WHEN_AWAY",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    return Judgement(
        case=Case.LIMITS_AWAY,
        says="Gateways do not reach the limits store: requests that need a budget are refused.",
        harms=(Indicator.AVAILABILITY,),
        brings=frozenset({Case.LIMITS_SLOW}),
        evidence=(
            at_least(
                "a gateway decides without the limits store, of the time",
                f'{names.LIMITS_REACH.name}{{state="shared"}}',
                snapshot.faults.limits_away_ratio,
                AWAY_RATIO,
                Unit.RATIO,
            ),
            store_refused(snapshot),
        ),
        remedies=REMEDIES,
    )
