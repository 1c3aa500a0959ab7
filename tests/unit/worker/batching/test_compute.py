"""What is believed of a device's compute, and how soon it is right."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.batching.compute import LEAST_RATIOS, MOST_KEYS, MOST_RATIOS, Computes
from penstock.worker.batching.settings import Prior
from tests.support.samples.batches import KEY, affine

PRIOR = Prior(fixed_s=0.004, per_item_s=0.001)
MOST = 32
OTHER = replace(KEY, bucket=64)
SIZES = st.integers(1, MOST)
DEVICE = affine(0.01, 0.003)


def run(computes: Computes, seconds: Callable[[int], float], begin: float, span_s: float, seed: int = 1) -> float:
    """Compute batches of random sizes one after another, with 5 % jitter; return the second of the last end."""
    chance, now = random.Random(seed), begin
    while now < begin + span_s:
        size = chance.randint(1, MOST)
        took = seconds(size) * chance.uniform(0.95, 1.05)
        now += took
        computes.learn(KEY, size, took, now)
    return now


def test_before_anything_was_measured_the_prior_is_believed_with_a_doubt() -> None:
    """A new batcher has an answer for every size, and a tail that leaves room."""
    computes = Computes(PRIOR, MOST)
    assert computes.p50(KEY, 8) == pytest.approx(0.012)
    assert computes.p99(KEY, 8) == pytest.approx(0.024)
    assert not computes.is_measured(KEY)


def test_one_measurement_says_something_about_all_sizes() -> None:
    """The prior's shape goes on from the size that was measured."""
    computes = Computes(PRIOR, MOST)
    computes.learn(KEY, 8, 0.12, 0.0)
    assert computes.p50(KEY, 8) == pytest.approx(0.12)
    assert computes.p50(KEY, 16) == pytest.approx(0.2)
    assert computes.p50(KEY, 1) == pytest.approx(0.05)


@pytest.mark.parametrize("size", [1, 4, 8, 20, 32])
def test_what_was_measured_is_learned(size: int) -> None:
    """After a few seconds the median is right within 6 %, and the tail is above the median and near the worst."""
    computes = Computes(PRIOR, MOST)
    run(computes, DEVICE.seconds, 0.0, 10.0)
    assert computes.p50(KEY, size) == pytest.approx(DEVICE.seconds(size), rel=0.06)
    assert computes.p50(KEY, size) < computes.p99(KEY, size) < 1.2 * DEVICE.seconds(size)


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_device_that_changes_its_pace_is_known_within_seconds(factor: float) -> None:
    """Two seconds after it slowed to half, or doubled, every size is believed within 10 % of the truth."""
    computes = Computes(PRIOR, MOST)
    now = run(computes, DEVICE.seconds, 0.0, 10.0)
    now = run(computes, lambda size: factor * DEVICE.seconds(size), now, 2.2, seed=2)
    for size in (1, 8, 32):
        assert computes.p50(KEY, size) == pytest.approx(factor * DEVICE.seconds(size), rel=0.10)
        assert computes.p99(KEY, size) == pytest.approx(factor * DEVICE.seconds(size), rel=0.25)


def test_a_change_of_pace_counts_for_buckets_that_nobody_asks() -> None:
    """What one bucket shows of the device the others know as well."""
    computes = Computes(PRIOR, MOST)
    for number in range(20):
        computes.learn(OTHER, 4, 0.5, number * 0.01)
    now = run(computes, DEVICE.seconds, 1.0, 5.0)
    run(computes, lambda size: 2 * DEVICE.seconds(size), now, 3.0)
    assert computes.p50(OTHER, 4) == pytest.approx(1.0, rel=0.15)


@given(st.lists(st.tuples(SIZES, st.floats(1e-4, 1.0), st.floats(0.0, 1.0)), max_size=60))
def test_a_larger_batch_is_never_believed_to_be_quicker(measured: list[tuple[int, float, float]]) -> None:
    """Whatever was measured, both quantiles rise with the batch size, and the tail is above the median."""
    computes, now = Computes(PRIOR, MOST), 0.0
    for size, seconds, pause in measured:
        now += pause
        computes.learn(KEY, size, seconds, now)
    for quantile in (computes.p50, computes.p99):
        believed = [quantile(KEY, size) for size in range(1, MOST + 1)]
        assert all(left <= right * (1 + 1e-9) for left, right in itertools.pairwise(believed))
    assert all(computes.p50(KEY, size) <= computes.p99(KEY, size) for size in (1, 7, MOST))


def test_one_slow_batch_is_forgotten_within_seconds() -> None:
    """A pause of the whole machine makes windows short for a moment, and the median never learns of it."""
    computes = Computes(PRIOR, MOST)
    now = run(computes, DEVICE.seconds, 0.0, 5.0)
    computes.learn(KEY, 8, 10 * DEVICE.seconds(8), now)
    assert computes.p50(KEY, 8) == pytest.approx(DEVICE.seconds(8), rel=0.15)
    assert computes.p99(KEY, 8) > 5 * DEVICE.seconds(8)
    run(computes, DEVICE.seconds, now, 4.0)
    assert computes.p99(KEY, 8) < 1.25 * DEVICE.seconds(8)


def test_memory_is_bounded() -> None:
    """Neither keys without end nor batches without end fill it, and a few measurements stay however old they are."""
    computes = Computes(PRIOR, MOST)
    for number in range(3 * MOST_KEYS):
        computes.learn(replace(KEY, bucket=number), 4, 0.01, number * 1e-3)
    assert len(computes._curves) == MOST_KEYS
    assert len(computes._recent) == len(computes._sorted) == MOST_RATIOS
    for number in range(LEAST_RATIOS):
        computes.learn(KEY, 4, 0.01, 1000.0 * (number + 1))
    assert len(computes._recent) == LEAST_RATIOS
