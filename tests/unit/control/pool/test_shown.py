"""The pool as metrics."""

from dataclasses import replace

from penstock.control.pool import why
from penstock.control.pool.shown import PoolMetrics
from penstock.domain.fleet.versions import Wanted
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import WorkerId
from penstock.telemetry.metrics import Metrics
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW, TINY

SLEPT = why.slept(WorkerId("w1"), TINY, TINY, "requests_held", is_turn=False)
WAKING = replace(things.report(state=WorkerState.WAKING), restart_s=2.0)
WARMING = replace(WAKING, state=WorkerState.WARMING, phases=(PhaseTiming(phase=WorkerState.WAKING, seconds=2.0),))


def ready(seconds: float) -> WorkerReport:
    phases = (
        PhaseTiming(phase=WorkerState.WAKING, seconds=seconds - 0.5),
        PhaseTiming(phase=WorkerState.WARMING, seconds=0.5),
    )
    return replace(WAKING, state=WorkerState.READY, phases=phases)


class Shown:
    """What a page shows."""

    def __init__(self, limit_bytes: int = 100) -> None:
        metrics = Metrics()
        self._registry = metrics.registry
        self.pool = PoolMetrics(metrics, limit_bytes)

    def number(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, labels)

    def failures(self, reason: str) -> float | None:
        return self.number("penstock_wake_failures_total", version=TINY, reason=reason)


def test_what_is_held_and_who_is_put_to_sleep_for_what() -> None:
    """A tick's figures are shown, and each sleep is counted by its cause, from 0 on."""
    shown = Shown()
    assert shown.number("penstock_pool_swaps_total", reason="never_sleeps") == 0.0
    wanted = [Wanted(version=TINY, requests=1, tokens=1, since=NOW - since_s) for since_s in (2.0, 5.0)]
    shown.pool.show(60, wanted, [SLEPT, replace(SLEPT, what="wake")], NOW)
    assert shown.number("penstock_pool_limit_bytes") == 100
    assert shown.number("penstock_pool_held_bytes") == 60
    assert shown.number("penstock_pool_wait_seconds") == 5.0
    assert shown.number("penstock_pool_swaps_total", reason="requests_held") == 1.0
    shown.pool.unknown()
    assert shown.number("penstock_pool_held_bytes") == 0.0


def test_without_a_pool_nothing_is_shown() -> None:
    """Nothing is held of no bytes, and no cause is there to rise."""
    shown = Shown(0)
    shown.pool.show(60, (), (), NOW)
    assert shown.number("penstock_pool_limit_bytes") is shown.number("penstock_pool_held_bytes") is None
    assert shown.number("penstock_pool_swaps_total", reason="pool_bytes") is None


def test_a_wake_is_timed_by_the_worker_and_judged_by_the_one_before() -> None:
    """One that took three times as long as the last one and 5 s more is slow; others are well."""
    shown = Shown()
    for took_s in (2.0, 10.9, 11.5):
        shown.pool.heard(WAKING, WARMING)
        shown.pool.heard(WARMING, ready(took_s))
    assert shown.number("penstock_wake_seconds_count", version=TINY) == 3.0
    assert [shown.failures("slow"), shown.failures("failed")] == [1.0, 0.0]


def test_a_wake_that_ends_in_another_start_or_for_good_has_failed() -> None:
    """Whether its engine did not come or its answers were wrong; one that is told to sleep again has not."""
    shown = Shown()
    for before, state in (
        (WAKING, WorkerState.VERIFYING),
        (WARMING, WorkerState.FAILED),
        (WAKING, WorkerState.LOADING),
    ):
        shown.pool.heard(before, replace(before, state=state))
    assert shown.failures("failed") == 3.0
    shown.pool.heard(WAKING, replace(WAKING, state=WorkerState.SLEEPING))
    shown.pool.heard(replace(WARMING, phases=()), things.report())
    assert (shown.failures("failed"), shown.failures("slow")) == (3.0, 0.0)
