"""No worker ready: requests arrive for a version without a ready worker, because none is deployed or none gets ready.

A cold start and an unhealthy version (its workers die repeatedly) are causes of this case.
"""

from collections.abc import Collection

from penstock.diagnosis.evidence import Case, Check, Cost, Judgement, Remedy, Unit, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot, VersionFigures
from penstock.domain.errors import NoCapacity
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

REFUSED_RATIO = 0.01
"""Refused part of requests: ten times the error budget of a 99.9 % objective."""
LEAST_READY = 1.0
"""Mean ready workers: a version with fewer had none for a part of the time."""

SEE = (
    remedy(
        "See in which state its workers are, what each says of it, and whether one is held for want of room.",
        Cost.NOTHING,
        "penstock status",
    ),
    remedy(
        "See why they do not start, or do not stay.",
        Cost.NOTHING,
        "penstock logs worker -e worker_failed -e worker_tries_again",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    version = missing(snapshot)
    return Judgement(
        case=Case.NO_WORKER,
        says=_says(version),
        subject=version.version,
        harms=(Indicator.AVAILABILITY, Indicator.TTFT, Indicator.LATENCY),
        evidence=(
            no_worker_found(snapshot, REFUSED_RATIO),
            below(
                f"fewer than one worker is ready, of {_wanted(version)} deployed",
                f'{names.WORKERS.name}{{state="ready"}}, {names.WORKERS_WANTED.name}',
                version.ready,
                LEAST_READY,
            ),
        ),
        remedies=_remedies(version),
    )


def no_worker_found(snapshot: Snapshot, limit: float) -> Check:
    return at_least(
        "requests found no worker",
        f'{names.REFUSALS.name}{{code="{NoCapacity.code}"}}, {names.NO_WORKER.name}',
        snapshot.faults.no_worker_ratio,
        limit,
        Unit.RATIO,
    )


def missing(snapshot: Snapshot) -> VersionFigures:
    """The version with most requests without a worker; else figures that are all unknown."""
    refused = snapshot.faults.unserved or {}
    version = max(refused, key=lambda one: refused[one], default="")
    known = next((one for one in snapshot.versions if one.version == version), None)
    return known or VersionFigures(version=version)


def effect(snapshot: Snapshot, versions: Collection[str]) -> frozenset[Case]:
    """Another version's lack of workers is no cause of these."""
    return frozenset({Case.NO_WORKER} if missing(snapshot).version in versions else ())


def _says(version: VersionFigures) -> str:
    if version.ready is None:
        return "No worker is ready."
    if version.wanted == 0:
        return "No worker is ready: the version is scaled to 0, and an alias or a caller still names it."
    scaled = "; it was scaled to 0 for a part of the time" if _is_unwanted(version) else ""
    if not version.ready:
        return f"No worker is ready of {_wanted(version)} deployed{scaled}."
    return f"No worker was ready for a part of the time: {version.ready:.2f} of {_wanted(version)} on average{scaled}."


def _wanted(version: VersionFigures) -> str:
    return "an unknown number" if version.wanted is None else f"{version.wanted:.3g}"


def _is_unwanted(version: VersionFigures) -> bool:
    return version.wanted is not None and version.wanted < LEAST_READY


def _remedies(version: VersionFigures) -> tuple[Remedy, ...]:
    scale = remedy(
        "Have a worker of the version again.",
        Cost.CAPACITY,
        f"penstock models scale {version.version or 'VERSION'} {'N' if version.wanted is None else 1}",
    )
    if version.wanted is None:
        return *SEE, scale
    return (scale,) if _is_unwanted(version) else SEE
