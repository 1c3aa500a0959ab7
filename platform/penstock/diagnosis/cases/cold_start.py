"""Cold starts: workers are being started while requests come for them.

An unfinished start counts as well: callers wait for it. A worker that starts because one was lost is another case.
"""

from penstock.diagnosis.cases.fullest import engine_of, queueing
from penstock.diagnosis.cases.no_worker import REFUSED_RATIO, effect, no_worker_found
from penstock.diagnosis.evidence import AnyOf, Case, Check, Cost, Judgement, Remedy, Sense
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

REMEDIES = (
    Remedy(
        says="See which phase of a start takes long.",
        cost=Cost.NOTHING,
        command="penstock status",
    ),
    Remedy(
        says="Share what engines compile and copies of weights between workers of a machine.",
        cost=Cost.RESTART,
        setting="PENSTOCK_COMPILE_CACHE",
    ),
    Remedy(
        says="Keep one worker of the version at all times, so that none has to be waited for.",
        cost=Cost.CAPACITY,
        command="penstock models scale VERSION N",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    starting = sorted({one.version for one in snapshot.workers if one.begun})
    return Judgement(
        case=Case.COLD_START,
        says="Requests came while workers were still starting.",
        subject=", ".join(starting),
        harms=(Indicator.AVAILABILITY, Indicator.TTFT, Indicator.LATENCY),
        brings=frozenset({Case.ENGINE_SATURATED}) | effect(snapshot, starting),
        evidence=(
            Check(
                says=_started(snapshot),
                metric=f'{names.PHASE_SECONDS.name}{{phase="loading"}}, {names.WORKER_STATE.name}',
                value=snapshot.sum_of(lambda one: one.begun),
                limit=1.0,
            ),
            AnyOf(
                checks=(
                    no_worker_found(snapshot, REFUSED_RATIO),
                    queueing(engine_of(snapshot)),
                )
            ),
            Check(
                says="no engine or worker was lost, which starts again by itself",
                metric=f"{names.ENGINE_RESTARTS.name}, {names.WORKER_ENDS.name}",
                value=_lost(snapshot),
                limit=1.0,
                sense=Sense.BELOW,
            ),
        ),
        remedies=REMEDIES,
    )


def _lost(snapshot: Snapshot) -> float | None:
    """Return the lost engines and workers; None if neither is known."""
    restarts, lost = snapshot.sum_of(lambda one: one.restarts), snapshot.faults.lost_workers or 0.0
    return lost if restarts is None and lost else None if restarts is None else restarts + lost


def _started(snapshot: Snapshot) -> str:
    under_way = [one for one in snapshot.workers if one.starting_s and not one.ready_ratio]
    told = "; ".join(f"{one.version} is {one.starting}, for up to {one.starting_s:.0f} s" for one in under_way)
    return f"workers started, or are starting ({told})" if told else "workers started"
