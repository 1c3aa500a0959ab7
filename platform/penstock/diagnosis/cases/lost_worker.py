"""A lost worker: a worker went silent, gave up or lost its engine; callers noticed until a replacement was ready.

The platform starts the replacement by itself; a start that replaces no worker is a cold start.
"""

from penstock.diagnosis.cases.fullest import engine_of, queueing
from penstock.diagnosis.cases.no_worker import REFUSED_RATIO, effect, no_worker_found
from penstock.diagnosis.evidence import Case, Cost, Judgement, Remedy, Unit, any_of, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.fleet.worker import WorkerEnd
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

OFTEN = 2
"""Losses from which it is no accident."""
_WORDS = {
    WorkerEnd.LOST: "went silent: it was killed, or its machine or network is gone",
    WorkerEnd.FAULT: "ended by a fault of its own",
    WorkerEnd.GAVE_UP: "gave up: its engine could not be started, or was lost too often",
}


def judge(snapshot: Snapshot) -> Judgement:
    return Judgement(
        case=Case.LOST_WORKER,
        says=_says(snapshot),
        subject=_subject(snapshot),
        harms=(Indicator.AVAILABILITY, Indicator.STREAM_COMPLETION, Indicator.TTFT, Indicator.LATENCY),
        brings=frozenset({Case.ENGINE_SATURATED, *_signs(snapshot)})
        | effect(snapshot, {one.version for one in snapshot.faults.lost} | {_engine(snapshot)[1]}),
        evidence=(
            at_least(
                "workers or engines were lost",
                f"{names.WORKER_ENDS.name}, {names.ENGINE_RESTARTS.name}",
                lost_count(snapshot),
                1.0,
            ),
            any_of(
                no_worker_found(snapshot, REFUSED_RATIO),
                at_least(
                    "requests failed in engines or broke off",
                    names.REQUESTS.name,
                    snapshot.faults.engine_fault_ratio,
                    REFUSED_RATIO,
                    Unit.RATIO,
                ),
                queueing(engine_of(snapshot)),
            ),
        ),
        remedies=_remedies(snapshot),
    )


def is_by_version(snapshot: Snapshot) -> bool:
    """Engines died or could not be started, repeatedly. A worker that only went silent was killed, or its machine or
    network is gone.
    """
    died = snapshot.sum_of(lambda one: one.restarts) or 0.0
    gave_up = any(one.reason == WorkerEnd.GAVE_UP for one in snapshot.faults.lost)
    return died >= OFTEN or (gave_up and (lost_count(snapshot) or 0.0) >= OFTEN)


def _signs(snapshot: Snapshot) -> tuple[Case, ...]:
    """Unless the version itself is the cause, which makes it no effect."""
    return () if is_by_version(snapshot) else (Case.UNHEALTHY_VERSION,)


def lost_count(snapshot: Snapshot) -> float | None:
    parts = snapshot.sum_of(lambda one: one.restarts), snapshot.faults.lost_workers
    known = sum(one for one in parts if one is not None)
    return known if known or None not in parts else None


def _engine(snapshot: Snapshot) -> tuple[str, str]:
    worst = max(snapshot.workers, key=lambda one: one.restarts or 0.0, default=None)
    return (worst.name, worst.version) if worst is not None and worst.restarts else ("", "")


def _subject(snapshot: Snapshot) -> str:
    return ", ".join(one.worker or one.version for one in snapshot.faults.lost) or _engine(snapshot)[0]


def _says(snapshot: Snapshot) -> str:
    told = [
        f"Worker {one.worker or '(unknown)'} of {one.version} {_WORDS[WorkerEnd(one.reason)]}."
        for one in snapshot.faults.lost
    ]
    name, version = _engine(snapshot)
    if name:
        told.append(f"Worker {name} of {version} lost its engine.")
    return " ".join([*told, "A successor is started by itself."])


def _remedies(snapshot: Snapshot) -> tuple[Remedy, ...]:
    names_ = [f"worker-{one.worker}" for one in snapshot.faults.lost if one.worker]
    engine, version = _engine(snapshot)
    log = names_[0] if names_ else f"engine-{engine}" if engine else "worker"
    of = snapshot.faults.lost[0].version if snapshot.faults.lost else version
    return (
        remedy("Read its last words.", Cost.NOTHING, f"penstock logs {log} -n 20"),
        remedy("See whether its successor gets ready.", Cost.NOTHING, "penstock status"),
        remedy(
            "Keep one more than the load needs, so that one may be lost.",
            Cost.CAPACITY,
            f"penstock models scale {of or 'VERSION'} N",
        ),
    )
