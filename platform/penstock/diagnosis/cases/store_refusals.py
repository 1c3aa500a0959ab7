"""The check of requests refused because a store was unavailable, shared by the cases of each store."""

from penstock.diagnosis.evidence import Check, Unit, at_least
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.errors import StoreUnavailable
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
