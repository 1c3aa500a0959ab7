"""Cold starts: workers are being started while requests arrive for them.

An unfinished start counts as well: callers wait for it. The start of a version without requests harms no caller, and
a worker that replaces a lost one is another case.
"""

from penstock.diagnosis.cases.fullest import engine_of, queueing
from penstock.diagnosis.cases.no_worker import REFUSED_RATIO, effect, no_worker_found
from penstock.diagnosis.evidence import Case, Cost, Judgement, any_of, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot, WorkerFigures
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

REMEDIES = (
    remedy("See which phase of a start takes long.", Cost.NOTHING, "penstock status"),
    remedy(
        "Share what engines compile and copies of weights between workers of a machine.",
        Cost.RESTART,
        setting="PENSTOCK_COMPILE_CACHE",
    ),
    remedy(
        "Keep one worker of the version at all times, so that none has to be waited for.",
        Cost.CAPACITY,
        "penstock models scale VERSION N",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    starting = sorted({one.version for one in snapshot.workers if _begun(snapshot, one)})
    return Judgement(
        case=Case.COLD_START,
        says="Requests came while workers were still starting.",
        subject=", ".join(starting),
        harms=(Indicator.AVAILABILITY, Indicator.TTFT, Indicator.LATENCY),
        brings=frozenset({Case.ENGINE_SATURATED}) | effect(snapshot, starting),
        evidence=(
            at_least(
                _started(snapshot),
                f'{names.PHASE_SECONDS.name}{{phase="loading"}}, {names.WORKER_STATE.name}',
                snapshot.sum_of(lambda one: _begun(snapshot, one)),
                1.0,
            ),
            any_of(no_worker_found(snapshot, REFUSED_RATIO), queueing(engine_of(snapshot, starting))),
            below(
                "no engine or worker was lost, which starts again by itself",
                f"{names.ENGINE_RESTARTS.name}, {names.WORKER_ENDS.name}",
                _lost(snapshot),
                1.0,
            ),
        ),
        remedies=REMEDIES,
    )


def _begun(snapshot: Snapshot, worker: WorkerFigures) -> float | None:
    return 0.0 if snapshot.is_called(worker.version) is False else worker.begun


def _lost(snapshot: Snapshot) -> float | None:
    restarts, lost = snapshot.sum_of(lambda one: one.restarts), snapshot.faults.lost_workers or 0.0
    return lost if restarts is None and lost else None if restarts is None else restarts + lost


def _started(snapshot: Snapshot) -> str:
    under_way = [one for one in snapshot.workers if one.starting_s and not one.ready_ratio and _begun(snapshot, one)]
    told = "; ".join(f"{one.version} is {one.starting}, for up to {one.starting_s:.0f} s" for one in under_way)
    return f"workers started, or are starting ({told})" if told else "workers started"
