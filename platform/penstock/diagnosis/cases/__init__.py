"""One file for each known cause: its rule, its evidence, its remedies."""

from collections.abc import Callable

from penstock.diagnosis.cases import (
    batch_too_small,
    cold_start,
    cpu_taken,
    disk_full,
    engine_saturated,
    gateway_bound,
    kv_bound,
    limits_away,
    limits_slow,
    lost_worker,
    no_worker,
    noisy_neighbour,
    prefill_interference,
    slow_clients,
    slow_zone,
    unhealthy_version,
)
from penstock.diagnosis.evidence import Judgement
from penstock.diagnosis.snapshot import Snapshot

CASES: tuple[Callable[[Snapshot], Judgement], ...] = (
    limits_away.judge,
    disk_full.judge,
    cpu_taken.judge,
    unhealthy_version.judge,
    slow_zone.judge,
    lost_worker.judge,
    no_worker.judge,
    cold_start.judge,
    gateway_bound.judge,
    limits_slow.judge,
    slow_clients.judge,
    noisy_neighbour.judge,
    kv_bound.judge,
    batch_too_small.judge,
    prefill_interference.judge,
    engine_saturated.judge,
)
