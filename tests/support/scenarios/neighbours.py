"""Neighbours of the situations that a diagnosis must name: they look alike, and are something else.

A neighbour lies within a factor of two of the threshold that sets it apart, so that a moved threshold is noticed.
"""

from dataclasses import dataclass, replace
from typing import Any

from penstock.diagnosis.evidence import Case
from penstock.domain.fleet.worker import WorkerEnd, WorkerState
from penstock.domain.outcome import Outcome, Stage
from tests.support.monitoring.measurements import EVERYDAY, Site, Tenant, Worker
from tests.support.scenarios.diagnoses import (
    BATCH_TOO_SMALL,
    COLD_START,
    CPU_TAKEN,
    DISK_FULL,
    GATEWAY_BOUND,
    KV_BOUND,
    LATE,
    LIMITS_AWAY,
    LIMITS_SLOW,
    LOST,
    NOISY,
    PREFILLING,
    SATURATED,
    SISTER,
    SLOW_CLIENTS,
    SLOW_STORE,
    SLOW_ZONE,
    STARTING,
    UNHEALTHY,
    VERSION,
    ZONED,
    evenly,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A situation in which this case does not hold: ``rules_out`` names it, for the evidence that it lacks."""

    case: Case
    because: str
    site: Site


def with_worker(site: Site, **fields: Any) -> Site:  # noqa: ANN401  any field of a worker
    return replace(site, workers=tuple(replace(one, **fields) for one in site.workers))


def with_tenants(site: Site, **changes: Tenant) -> Site:
    return replace(site, tenants={**site.tenants, **changes})


NEIGHBOURS: tuple[Neighbour, ...] = (
    Neighbour(
        case=Case.ENGINE_SATURATED,
        because="a full batch for which nobody waits is a well used engine",
        site=with_worker(SATURATED, waiting=0.6),
    ),
    Neighbour(
        case=Case.ENGINE_SATURATED,
        because="what waits before a half empty batch waits for something else",
        site=replace(with_worker(SATURATED, running=40), device=70.0),
    ),
    Neighbour(
        case=Case.ENGINE_SATURATED,
        because="where the gateway computes all the time, its CPU is not idle",
        site=replace(SATURATED, loop_busy_ratio=0.78),
    ),
    Neighbour(
        case=Case.ENGINE_SATURATED,
        because="a full KV cache is the scarcer thing",
        site=with_worker(SATURATED, kv_used_ratio=0.95),
    ),
    Neighbour(
        case=Case.ENGINE_SATURATED,
        because="GPUs that idle are not saturated, however full the batch",
        site=replace(SATURATED, device=70.0),
    ),
    Neighbour(
        case=Case.KV_BOUND,
        because="a batch that is full, too, is the scarcer thing",
        site=with_worker(KV_BOUND, running=55),
    ),
    Neighbour(
        case=Case.KV_BOUND,
        because="a full KV cache that nobody waits for is well used",
        site=with_worker(KV_BOUND, waiting=0.6, preemptions=0),
    ),
    Neighbour(
        case=Case.KV_BOUND,
        because="what waits before free blocks waits for something else",
        site=with_worker(KV_BOUND, kv_used_ratio=0.7, saturation=0.7, preemptions=0),
    ),
    Neighbour(
        case=Case.BATCH_TOO_SMALL,
        because="busy GPUs would not serve a larger batch sooner",
        site=replace(BATCH_TOO_SMALL, device=75.0),
    ),
    Neighbour(
        case=Case.BATCH_TOO_SMALL,
        because="free slots are no lack of slots",
        site=with_worker(BATCH_TOO_SMALL, running=5),
    ),
    Neighbour(
        case=Case.BATCH_TOO_SMALL,
        because="without KV blocks more slots stay empty",
        site=with_worker(BATCH_TOO_SMALL, kv_used_ratio=0.85),
    ),
    Neighbour(
        case=Case.BATCH_TOO_SMALL,
        because="a small batch for which nobody waits is large enough",
        site=with_worker(BATCH_TOO_SMALL, waiting=0.6),
    ),
    Neighbour(
        case=Case.PREFILL_INTERFERENCE,
        because="an engine that decodes most of the time has a large batch, and few prompts in it",
        site=replace(PREFILLING, tenants=evenly(0.002, prompt=100, output=100)),
    ),
    Neighbour(
        case=Case.PREFILL_INTERFERENCE,
        because="first tokens that mostly wait for a place are a queue",
        site=replace(PREFILLING, ttft_s=LATE, stages={**EVERYDAY, Stage.QUEUE: 0.25}),
    ),
    Neighbour(
        case=Case.PREFILL_INTERFERENCE,
        because="at one request a time no prompt meets a running answer",
        site=with_worker(PREFILLING, running=1.5),
    ),
    Neighbour(
        case=Case.PREFILL_INTERFERENCE,
        because="gaps that keep the promise are nobody's harm",
        site=replace(PREFILLING, itl_s={0.03: 11_500, 0.3: 500}),
    ),
    Neighbour(
        case=Case.PREFILL_INTERFERENCE,
        because="where requests wait for a place, the batch is full",
        site=with_worker(PREFILLING, waiting=1.8),
    ),
    Neighbour(
        case=Case.STARVED_TENANTS,
        because="in fair order the others pass, and only the one who floods waits",
        site=with_tenants(NOISY, loud=Tenant(requests=400, wait_s=6.0)),
    ),
    Neighbour(
        case=Case.STARVED_TENANTS,
        because="others who hardly wait are not starved",
        site=with_tenants(NOISY, quiet=Tenant(requests=20, wait_s=0.3), loud=Tenant(requests=400, wait_s=0.3)),
    ),
    Neighbour(
        case=Case.STARVED_TENANTS,
        because="where nobody has most of the service, all of them are too many",
        site=replace(NOISY, tenants={name: Tenant(wait_s=2.0) for name in ("loud", "quiet", "third")}),
    ),
    Neighbour(
        case=Case.STARVED_TENANTS,
        because="one whom its own limits refuse is bounded already",
        site=with_tenants(NOISY, loud=Tenant(requests=400, wait_s=1.0, over_limit=1)),
    ),
    Neighbour(
        case=Case.STARVED_TENANTS,
        because="where nobody waits at a door, others' waits have another reason",
        site=with_worker(NOISY, waiting=0.6),
    ),
    Neighbour(
        case=Case.GATEWAY_BOUND,
        because="a loop that is late and computes little waits for something else",
        site=replace(GATEWAY_BOUND, loop_busy_ratio=0.6),
    ),
    Neighbour(
        case=Case.GATEWAY_BOUND,
        because="a loop that computes much and is in time holds nobody up",
        site=replace(GATEWAY_BOUND, lag_s={0.0049: 220, 0.008: 20}),
    ),
    Neighbour(
        case=Case.LIMITS_SLOW,
        because="a loop that is late makes every store look slow",
        site=replace(LIMITS_SLOW, lag_s={0.008: 220, 0.02: 20}),
    ),
    Neighbour(
        case=Case.LIMITS_SLOW,
        because="an admission of twenty milliseconds is what a store far away takes",
        site=replace(LIMITS_SLOW, stages={**EVERYDAY, Stage.ADMISSION: 0.02, Stage.PREFILL: 0.05}),
    ),
    Neighbour(
        case=Case.LIMITS_SLOW,
        because="where a prompt takes seven times as long, admission is not the bottleneck",
        site=replace(LIMITS_SLOW, stages={**SLOW_STORE, Stage.PREFILL: 4.0}),
    ),
    Neighbour(
        case=Case.LIMITS_AWAY,
        because="a reconnection is no outage",
        site=replace(LIMITS_AWAY, limits_away_ratio=0.06),
    ),
    Neighbour(
        case=Case.LIMITS_AWAY,
        because="without a budget no request is refused",
        site=replace(LIMITS_AWAY, without_store=1),
    ),
    Neighbour(
        case=Case.LIMITS_AWAY,
        because="a full disk refuses by the same error",
        site=DISK_FULL,
    ),
    Neighbour(
        case=Case.DISK_FULL,
        because="a single refused write is repeated",
        site=replace(DISK_FULL, spool_full_ratio=0.06),
    ),
    Neighbour(
        case=Case.DISK_FULL,
        because="a limits store that is away refuses by the same error",
        site=LIMITS_AWAY,
    ),
    Neighbour(
        case=Case.CPU_TAKEN,
        because="a core is waited for now and then on every machine",
        site=replace(CPU_TAKEN, loop_busy_ratio=0.05, loop_starved_ratio=0.06),
    ),
    Neighbour(
        case=Case.CPU_TAKEN,
        because="a loop that computes or would compute all the time is bound by itself",
        site=replace(CPU_TAKEN, loop_busy_ratio=0.3, loop_starved_ratio=0.6),
    ),
    Neighbour(
        case=Case.CPU_TAKEN,
        because="a loop that computes longer than it waits uses the core itself",
        site=replace(CPU_TAKEN, loop_busy_ratio=0.4),
    ),
    Neighbour(
        case=Case.SLOW_CLIENTS,
        because="a slow engine makes the same gaps, and its readers wait for it",
        site=replace(SLOW_CLIENTS, paused_s=30.0),
    ),
    Neighbour(
        case=Case.NO_WORKER,
        because="full workers are there",
        site=Site(workers=(), wanted={VERSION: 0}, failed={Outcome.NO_CAPACITY: 60}, overloaded=60),
    ),
    Neighbour(
        case=Case.NO_WORKER,
        because="a version that nobody asks for needs no worker",
        site=Site(workers=(), wanted={VERSION: 0}, failed={Outcome.NO_CAPACITY: 1}),
    ),
    Neighbour(
        case=Case.NO_WORKER,
        because="where a worker is ready all the time, who is refused is refused for another reason",
        site=replace(COLD_START, workers=(Worker(), Worker(starting={WorkerState.LOADING: 0.4}))),
    ),
    Neighbour(
        case=Case.COLD_START,
        because="requests that found no worker while none started have another reason",
        site=with_worker(COLD_START, starts=0),
    ),
    Neighbour(
        case=Case.COLD_START,
        because="a worker that starts and is not missed costs nobody anything",
        site=replace(COLD_START, failed={Outcome.NO_CAPACITY: 1}),
    ),
    Neighbour(
        case=Case.COLD_START,
        because="a version that starts without callers is no reason why another one's are refused",
        site=replace(
            COLD_START,
            workers=(Worker(waiting=3), replace(STARTING, version=SISTER)),
            called=VERSION,
        ),
    ),
    Neighbour(
        case=Case.COLD_START,
        because="an engine that was lost starts again for a reason of its own",
        site=with_worker(COLD_START, restarts=1),
    ),
    Neighbour(
        case=Case.LOST_WORKER,
        because="a worker that starts because it is wanted replaces none",
        site=COLD_START,
    ),
    Neighbour(
        case=Case.LOST_WORKER,
        because="where others take over, a loss costs nobody anything",
        site=Site(workers=(Worker(starts=1), Worker()), lost={WorkerEnd.LOST: 1}, failed={Outcome.NO_CAPACITY: 1}),
    ),
    Neighbour(
        case=Case.SLOW_ZONE,
        because="zones differ a little by their distance",
        site=replace(SLOW_ZONE, zones={"z1": 0.2, "z2": 0.35}),
    ),
    Neighbour(
        case=Case.SLOW_ZONE,
        because="one slow worker drags the mean of its zone",
        site=replace(
            SLOW_ZONE, workers=(*ZONED[:3], replace(ZONED[3], prefill_s=0.2), replace(ZONED[3], prefill_s=2.0))
        ),
    ),
    Neighbour(
        case=Case.SLOW_ZONE,
        because="one worker that is a few times slower is no zone either",
        site=replace(
            SLOW_ZONE, workers=(*ZONED[:2], replace(ZONED[3], prefill_s=0.2), replace(ZONED[3], prefill_s=0.5))
        ),
    ),
    Neighbour(
        case=Case.SLOW_ZONE,
        because="one zone alone has nothing to be slower than",
        site=replace(SLOW_ZONE, zones={"z2": 1.6}, workers=ZONED[2:]),
    ),
    Neighbour(
        case=Case.UNHEALTHY_VERSION,
        because="one lost engine is an accident",
        site=Site(workers=(Worker(restarts=1),), failed={Outcome.BROKEN_STREAM: 4}),
    ),
    Neighbour(
        case=Case.UNHEALTHY_VERSION,
        because="one worker of three that is lost again and again is that worker's machine",
        site=replace(UNHEALTHY, workers=(LOST, Worker(), Worker())),
    ),
    Neighbour(
        case=Case.UNHEALTHY_VERSION,
        because="a few failures in a hundred may be those of one request",
        site=Site(failed={Outcome.ENGINE_ERROR: 4}),
    ),
    Neighbour(
        case=Case.UNHEALTHY_VERSION,
        because="a circuit that opens for a moment has worked",
        site=Site(open_circuits={"version": 0.06}),
    ),
    Neighbour(
        case=Case.SLOW_ZONE,
        because="a zone left alone for a moment is no slow one",
        site=Site(workers=ZONED, zones={"z1": 0.2, "z2": 0.2}, open_circuits={"zone": 0.06}),
    ),
)
