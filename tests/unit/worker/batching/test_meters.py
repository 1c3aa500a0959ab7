"""What batches add up to: a bounded number of series, one for each trigger and reason from the start."""

import pytest

from penstock.domain.ids import VersionId
from penstock.domain.serving.report import Trigger
from penstock.worker.batching.items import Fired, Left
from penstock.worker.batching.meters import BatchMeters
from tests.support.samples.batches import KEY

MOST_SERIES = 110
"""Of one worker, which has one version."""


def fired(trigger: Trigger = Trigger.SIZE, size: int = 4, compute_s: float | None = 0.02) -> Fired:
    return Fired(
        key=KEY,
        trigger=trigger,
        size=size,
        most_items=8,
        waits_s=(0.003,) * size,
        padding_ratio=0.25,
        window_s=0.1,
        predicted_s=0.015,
        compute_s=compute_s,
    )


def values(meters: BatchMeters) -> dict[str, float]:
    told = meters.exposition().decode().replace('version="toy@1"', "").replace("{}", "")
    lines = [line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_each_trigger_and_reason_is_shown_from_the_start() -> None:
    """A counter that appears at 1 would show no rise."""
    told = BatchMeters(VersionId("toy@1")).exposition().decode()
    for trigger in Trigger:
        assert f'penstock_batches_total{{trigger="{trigger}",version="toy@1"}} 0.0' in told
    for reason in Left:
        assert f'penstock_batch_items_left_total{{reason="{reason}",version="toy@1"}} 0.0' in told


def test_a_batch_is_counted_with_all_that_it_tells() -> None:
    """Size, fill, padding, each item's wait, window, compute against its prediction; a failed one has no compute."""
    meters = BatchMeters(VersionId("toy@1"))
    meters.fired(fired(Trigger.DEADLINE))
    meters.fired(fired(Trigger.IDLE, size=1, compute_s=None))
    meters.left(Left.POISONED)
    shown = values(meters)
    assert shown['penstock_batches_total{trigger="deadline",}'] == 1.0
    assert shown["penstock_batch_items_sum"] == 5.0
    assert shown["penstock_batch_fill_ratio_sum"] == pytest.approx(0.625)
    assert shown["penstock_batch_padding_ratio_sum"] == pytest.approx(0.5)
    assert shown["penstock_batch_wait_seconds_count"] == 5.0
    assert shown["penstock_batch_compute_seconds_count"] == shown["penstock_batches_beyond_predicted_total"] == 1.0
    assert shown["penstock_batch_window_seconds"] == 0.1
    assert shown['penstock_batch_items_left_total{reason="poisoned",}'] == 1.0


def test_series_are_bounded() -> None:
    """Whatever comes, a worker has no more series than these."""
    meters = BatchMeters(VersionId("toy@1"))
    for trigger in Trigger:
        for size in range(1, 40):
            meters.fired(fired(trigger, size))
    assert len(values(meters)) < MOST_SERIES
