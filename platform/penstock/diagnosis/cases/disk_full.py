"""Disk full: a gateway can't write the ledger rows of requests, so it refuses them before a worker sees them.

Prometheus on the same disk may have lost the measurements: then the gateways' own pages show the fault.
"""

from penstock.diagnosis.cases.limits_away import store_refused
from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

FULL_RATIO = 0.1
"""Part of the time: a single refused write is repeated within a second."""

REMEDIES = (
    remedy("See which gateways' disks are full.", Cost.NOTHING, "penstock status"),
    remedy(
        "Free space or enlarge the disk; then restart Prometheus, if it is on this disk: its log is damaged.",
        Cost.WORK,
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    return Judgement(
        case=Case.DISK_FULL,
        says="A gateway's disk is full: it can't record requests for billing, and refuses them.",
        harms=(Indicator.AVAILABILITY,),
        evidence=(
            at_least(
                "a gateway's disk refuses writes, of the time",
                names.SPOOL_FULL.name,
                snapshot.faults.spool_full_ratio,
                FULL_RATIO,
                Unit.RATIO,
            ),
            store_refused(snapshot),
        ),
        remedies=REMEDIES,
    )
