"""Situations that a diagnosis must name."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.diagnosis.evidence import Case
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.fleet.worker import WorkerEnd, WorkerState
from penstock.domain.outcome import Outcome, Stage
from tests.support.monitoring.measurements import EVERYDAY, Site, Tenant, Worker

Look = Callable[[Site], Snapshot]
"""Makes a snapshot of a described platform."""
LATE = {0.4: 60, 2.0: 60}
"""First tokens, half of them after their promise."""
HEALTHY = Site()


def evenly(wait_s: float, **fields: int) -> Mapping[str, Tenant]:
    """Return three tenants with the same load."""
    return {name: Tenant(wait_s=wait_s, **fields) for name in "abc"}


FULL = Worker(running=63, waiting=12, saturation=1.0, kv_used_ratio=0.6)
SATURATED = Site(workers=(FULL,), tenants=evenly(1.5), ttft_s=LATE, device=97.0)
HALF = Worker(running=30, waiting=12, saturation=0.5, kv_used_ratio=0.45)
HALF_FULL = Site(workers=(HALF,), tenants=evenly(1.5), ttft_s=LATE)
"""Requests wait while half the slots are used, and the GPUs say nothing."""
KV_FULL = Worker(running=20, waiting=12, saturation=1.0, kv_used_ratio=0.97, preemptions=3)
KV_BOUND = Site(workers=(KV_FULL,), tenants=evenly(1.5), ttft_s=LATE, device=60.0)
SMALL = Worker(running=8, slots=8, waiting=12, saturation=1.0, kv_used_ratio=0.15)
BATCH_TOO_SMALL = Site(workers=(SMALL,), tenants=evenly(1.5), ttft_s=LATE, device=35.0)
PREFILLING = Site(
    tenants=evenly(0.002, prompt=1500, output=100),
    itl_s={0.03: 8_000, 0.3: 4_000},
    workers=(Worker(running=20),),
)
LOUD = {"loud": Tenant(requests=400, wait_s=1.0), "quiet": Tenant(requests=20, wait_s=2.0)}
NOISY = Site(tenants=LOUD, workers=(FULL,), ttft_s=LATE)
GATEWAY_BOUND = Site(loop_busy_ratio=0.97, lag_s={0.08: 240}, ttft_s=LATE)
SLOW_STORE = {**EVERYDAY, Stage.ADMISSION: 0.6}
LIMITS_SLOW = Site(stages=SLOW_STORE, ttft_s=LATE)
SLOW_CLIENTS = Site(paused_s=120.0, itl_s={0.02: 10_000, 1.5: 2_000})
VERSION, SISTER = "m@000000000001", "m@000000000002"
STARTING = Worker(requests=0, starting={WorkerState.FETCHING: 0.2, WorkerState.LOADING: 0.8})
COLD_START = Site(workers=(Worker(starts=1),), failed={Outcome.NO_CAPACITY: 60})
WORKER_LOST = replace(COLD_START, lost={WorkerEnd.LOST: 1})
SCALED_TO_NOTHING = Site(tenants={}, workers=(), ttft_s={}, wanted={VERSION: 0}, failed={Outcome.NO_CAPACITY: 30})
ZONED = tuple(Worker(zone=zone, prefill_s=0.6 if zone == "z2" else 0.15) for zone in ("z1", "z1", "z2", "z2"))
SLOW_ZONE = Site(workers=ZONED, zones={"z1": 0.2, "z2": 1.6}, ttft_s=LATE)
LIMITS_AWAY = Site(limits_away_ratio=0.5, without_store=40)
DISK_FULL = Site(spool_full_ratio=0.5, without_store=40)
CPU_TAKEN = Site(loop_busy_ratio=0.1, loop_starved_ratio=0.3, ttft_s=LATE)
LOST = Worker(restarts=3)
UNHEALTHY = Site(workers=(LOST, LOST), failed={Outcome.BROKEN_STREAM: 20})

SITUATIONS: dict[Case, Site] = {
    Case.LIMITS_AWAY: LIMITS_AWAY,
    Case.DISK_FULL: DISK_FULL,
    Case.CPU_TAKEN: CPU_TAKEN,
    Case.UNHEALTHY_VERSION: UNHEALTHY,
    Case.SLOW_ZONE: SLOW_ZONE,
    Case.LOST_WORKER: WORKER_LOST,
    Case.NO_WORKER: SCALED_TO_NOTHING,
    Case.COLD_START: COLD_START,
    Case.GATEWAY_BOUND: GATEWAY_BOUND,
    Case.LIMITS_SLOW: LIMITS_SLOW,
    Case.SLOW_CLIENTS: SLOW_CLIENTS,
    Case.STARVED_TENANTS: NOISY,
    Case.KV_BOUND: KV_BOUND,
    Case.BATCH_TOO_SMALL: BATCH_TOO_SMALL,
    Case.PREFILL_INTERFERENCE: PREFILLING,
    Case.ENGINE_SATURATED: SATURATED,
}

ALSO: tuple[tuple[Case, Site], ...] = (
    (Case.LIMITS_AWAY, Site(limits_away_ratio=0.15, without_store=2)),
    (Case.DISK_FULL, Site(spool_full_ratio=0.15, without_store=2)),
    (Case.CPU_TAKEN, replace(CPU_TAKEN, loop_busy_ratio=0.12, loop_starved_ratio=0.16)),
    (Case.CPU_TAKEN, replace(CPU_TAKEN, loop_busy_ratio=0.2, loop_starved_ratio=0.4)),
    (Case.PREFILL_INTERFERENCE, replace(PREFILLING, workers=(Worker(running=2.5),))),
    (Case.NO_WORKER, Site(wanted={VERSION: 1, SISTER: 0}, called=SISTER, failed={Outcome.NO_CAPACITY: 60})),
    (Case.UNHEALTHY_VERSION, Site(workers=(Worker(restarts=2), Worker()), failed={Outcome.BROKEN_STREAM: 20})),
    (Case.UNHEALTHY_VERSION, Site(failed={Outcome.ENGINE_ERROR: 7})),
    (Case.UNHEALTHY_VERSION, Site(ejections=3)),
    (Case.UNHEALTHY_VERSION, Site(open_circuits={"version": 0.15})),
    (Case.LOST_WORKER, Site(lost={WorkerEnd.GAVE_UP: 1}, failed={Outcome.BROKEN_STREAM: 2})),
    (Case.LOST_WORKER, Site(workers=(Worker(restarts=1),), failed={Outcome.BROKEN_STREAM: 4})),
    (
        Case.LOST_WORKER,
        Site(lost={WorkerEnd.LOST: 1}, open_circuits={"version": 0.15}, failed={Outcome.NO_CAPACITY: 9}),
    ),
    (Case.SLOW_ZONE, Site(workers=ZONED, open_circuits={"zone": 0.15})),
    (Case.SLOW_CLIENTS, Site(failed={Outcome.SLOW_READER: 1})),
    (Case.KV_BOUND, Site(workers=(replace(KV_FULL, waiting=1.5, preemptions=0, kv_used_ratio=0.5, saturation=0.95),))),
    (Case.KV_BOUND, Site(workers=(replace(KV_FULL, running=38),))),
    (Case.KV_BOUND, Site(workers=(replace(KV_FULL, waiting=0.0, preemptions=1),))),
    (Case.BATCH_TOO_SMALL, replace(BATCH_TOO_SMALL, workers=(replace(SMALL, kv_used_ratio=0.5),))),
    (Case.COLD_START, replace(COLD_START, failed={Outcome.NO_CAPACITY: 2})),
    (Case.ENGINE_SATURATED, replace(SATURATED, workers=(replace(FULL, running=58, waiting=1.5),), device=None)),
    (Case.COLD_START, replace(COLD_START, workers=(STARTING,))),
    (Case.NO_WORKER, replace(COLD_START, workers=(STARTING,))),
    (Case.NO_WORKER, Site(workers=(), wanted={VERSION: 2}, failed={Outcome.NO_CAPACITY: 2})),
    (Case.NO_WORKER, Site(workers=(Worker(starting={WorkerState.LOADING: 0.4}),), failed={Outcome.NO_CAPACITY: 60})),
    (Case.ENGINE_SATURATED, replace(SATURATED, loop_busy_ratio=0.5)),
    (Case.ENGINE_SATURATED, replace(HALF_FULL, failed={Outcome.NO_CAPACITY: 2}, overloaded=2)),
    (Case.ENGINE_SATURATED, replace(HALF_FULL, workers=(replace(HALF, queue_s=1.5),))),
    (Case.GATEWAY_BOUND, replace(GATEWAY_BOUND, loop_busy_ratio=0.3, loop_starved_ratio=0.65)),
    (Case.GATEWAY_BOUND, replace(GATEWAY_BOUND, lag_s={0.008: 220, 0.02: 20})),
    (Case.LIMITS_SLOW, replace(LIMITS_SLOW, stages={**EVERYDAY, Stage.ADMISSION: 0.04})),
    (Case.LIMITS_SLOW, replace(LIMITS_SLOW, lag_s={0.0008: 220, 0.008: 20})),
    (Case.STARVED_TENANTS, replace(NOISY, tenants={name: replace(LOUD[name], wait_s=0.8) for name in LOUD})),
    (Case.STARVED_TENANTS, replace(NOISY, tenants={"loud": replace(LOUD["loud"], wait_s=2.6), "quiet": LOUD["quiet"]})),
    (Case.PREFILL_INTERFERENCE, replace(PREFILLING, workers=(Worker(waiting=0.7),))),
    (Case.PREFILL_INTERFERENCE, replace(PREFILLING, ttft_s=LATE, stages={**EVERYDAY, Stage.QUEUE: 0.1})),
    (Case.SLOW_CLIENTS, replace(SLOW_CLIENTS, paused_s=72.0)),
    (Case.SLOW_ZONE, replace(SLOW_ZONE, zones={"z1": 0.2, "z2": 0.6})),
    (Case.SLOW_ZONE, replace(SLOW_ZONE, workers=(*ZONED[:3], replace(ZONED[3], prefill_s=0.3)))),
)
"""The same cases, shown by other evidence, or by as little of it as is enough."""

LEFT_OPEN: tuple[tuple[Case, Site], ...] = (
    (Case.ENGINE_SATURATED, replace(SATURATED, workers=(replace(FULL, running=40),), device=None)),
    (Case.ENGINE_SATURATED, HALF_FULL),
    (Case.ENGINE_SATURATED, replace(HALF_FULL, failed={Outcome.NO_CAPACITY: 1}, overloaded=1)),
    (Case.ENGINE_SATURATED, replace(HALF_FULL, failed={Outcome.NO_CAPACITY: 60})),
    (Case.ENGINE_SATURATED, replace(HALF_FULL, workers=(replace(HALF, queue_s=0.7),))),
    (Case.BATCH_TOO_SMALL, replace(BATCH_TOO_SMALL, device=None)),
    (Case.LIMITS_SLOW, replace(LIMITS_SLOW, shares_limits=False)),
)
"""Situations that only an unknown figure would decide: the GPUs' own account, or whether limits are shared."""
