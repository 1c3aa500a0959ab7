"""An unhealthy version: its engines die, fail their golden prompts or fail requests on all machines.

A single such worker points to its machine; a version is common to most affected workers.
"""

from penstock.diagnosis.cases.lost_worker import is_by_version
from penstock.diagnosis.cases.no_worker import effect
from penstock.diagnosis.evidence import Case, Cost, Judgement, Remedy, Unit, any_of, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot, WorkerFigures
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

OFTEN = 2.0
"""Deaths from which it is no accident."""
FAILING_RATIO = 0.05
OPEN_RATIO = 0.1
"""Part of the time; a version's circuit is open while all its workers are down."""
MOST_WORKERS = 0.5
SEVERAL = 2
"""Ready workers from which one may be replaced while another serves."""

SEE = remedy("See why its workers end; its engines' logs have more.", Cost.NOTHING, "penstock status")
ANEW = remedy("Start its workers anew, one at a time.", Cost.ROLLING, "penstock restart workers")
ANOTHER = remedy(
    "No other version of the model runs: push a version that is known to be good.",
    Cost.NEW_VERSION,
    "penstock models push SOURCE --name NAME --price PRICE --licence LICENCE --workers 1",
)


def judge(snapshot: Snapshot) -> Judgement:
    version = _worst(snapshot)
    workers = [one for one in snapshot.workers if one.version == version]
    ejections = snapshot.faults.ejections
    return Judgement(
        case=Case.UNHEALTHY_VERSION,
        says="Workers of one version fail, wherever they run.",
        subject=version,
        harms=(Indicator.AVAILABILITY, Indicator.STREAM_COMPLETION, Indicator.TTFT, Indicator.LATENCY),
        brings=frozenset({Case.COLD_START, Case.ENGINE_SATURATED, *_losses(snapshot)}) | effect(snapshot, {version}),
        evidence=(
            any_of(
                at_least(
                    "engines were lost and started again",
                    names.ENGINE_RESTARTS.name,
                    snapshot.sum_of(lambda one: one.restarts, version),
                    OFTEN,
                ),
                at_least(
                    "gateways stopped sending to its workers",
                    names.EJECTIONS.name,
                    None if ejections is None else dict(ejections).get(version, 0.0),
                    OFTEN,
                ),
                at_least(
                    "gateways refuse a version early",
                    f'{names.BREAKERS_OPEN.name}{{level="version"}}',
                    snapshot.faults.versions_open,
                    OPEN_RATIO,
                ),
                at_least(
                    "requests failed in engines or broke off",
                    names.REQUESTS.name,
                    snapshot.faults.engine_fault_ratio,
                    FAILING_RATIO,
                    Unit.RATIO,
                ),
            ),
            at_least(
                "most of its workers are affected",
                f"{names.ENGINE_RESTARTS.name}, {names.WORKER_STATE.name}",
                sum(map(_is_affected, workers)) / len(workers) if any(map(_is_affected, workers)) else None,
                MOST_WORKERS,
                Unit.RATIO,
                needed=False,
            ),
        ),
        remedies=_remedies(snapshot, version),
    )


def _losses(snapshot: Snapshot) -> tuple[Case, ...]:
    return (Case.LOST_WORKER,) if is_by_version(snapshot) else ()


def _remedies(snapshot: Snapshot, version: str) -> tuple[Remedy, ...]:
    """Return the remedies, among them another version of the model if one runs well."""
    name = version.partition("@")[0]
    leaving = {one.version for one in snapshot.versions if one.wanted is not None and not round(one.wanted)}
    others = {one.version for one in snapshot.workers if one.version.partition("@")[0] == name} - {version, *leaving}
    well = sorted(others - {one.version for one in snapshot.workers if _is_affected(one)})
    ready = next((one.ready for one in snapshot.versions if one.version == version), None)
    anew = (ANEW,) if ready is None or ready >= SEVERAL else ()
    if not well:
        return SEE, *anew, ANOTHER
    command = f"penstock aliases set ALIAS {well[0]}"
    away = remedy("Send callers to the other version that runs.", Cost.NOTHING, command)
    return away, SEE, *anew


def _worst(snapshot: Snapshot) -> str:
    lost: dict[str, float] = {}
    for worker in snapshot.workers:
        lost[worker.version] = lost.get(worker.version, 0.0) + (worker.restarts or 0.0) + (worker.failed_ratio or 0.0)
    for version, count in snapshot.faults.ejections or ():
        lost[version] = lost.get(version, 0.0) + count
    return max(lost, key=lambda one: lost[one], default="")


def _is_affected(worker: WorkerFigures) -> bool:
    return bool(worker.restarts) or bool(worker.failed_ratio)
