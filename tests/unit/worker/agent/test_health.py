"""Hangs, causes and restarts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.agent.health import Cause, RestartPolicy, Restarts, Watchdog, cause_of


def test_an_engine_that_works_is_never_hung() -> None:
    """As long as the marker moves now and then, no wait is long enough."""
    dog = Watchdog(10.0, 0.0)
    for second in range(1, 200):
        dog.look(second // 8, float(second))
        assert not dog.is_hung


@pytest.mark.parametrize("marker", [(5.0,), None], ids=["nothing moves", "nobody answers"])
def test_an_engine_without_progress_is_hung_after_the_timeout(marker: object) -> None:
    """Neither a marker that stands still nor silence is forgiven for longer than the timeout."""
    dog = Watchdog(10.0, 0.0)
    dog.look((5.0,), 1.0)
    for second in range(2, 11):
        dog.look(marker, float(second))
        assert not dog.is_hung
    dog.look(marker, 11.0)
    assert dog.is_hung


def test_time_in_which_the_agent_slept_does_not_count() -> None:
    """A machine that was suspended for an hour does not make its engine look hung."""
    dog = Watchdog(10.0, 0.0)
    dog.look(1, 1.0)
    dog.look(1, 3601.0)
    assert not dog.is_hung
    dog.look(2, 3602.0)
    assert dog.silent_s == 0.0


@pytest.mark.parametrize(
    ("exit_code", "oom_kills", "cause"),
    [
        (1, 0, Cause.CRASH),
        (-9, 0, Cause.CRASH),
        (-9, 1, Cause.OUT_OF_MEMORY),
        (1, 1, Cause.OUT_OF_MEMORY),
        (-9, None, Cause.OUT_OF_MEMORY),
        (None, None, Cause.CRASH),
    ],
)
def test_the_kernels_count_tells_a_lack_of_memory_from_a_crash(
    exit_code: int | None, oom_kills: int | None, cause: Cause
) -> None:
    """The kernel's own count decides; where it is silent, a kill from outside counts as a lack of memory."""
    assert cause_of(exit_code, oom_kills=oom_kills) is cause


@given(seed=st.integers())
def test_backoff_doubles_with_jitter_until_a_crash_loop(seed: int) -> None:
    """Waits lie between half and all of a doubling bound, and the last allowed failure ends trying."""
    restarts = Restarts(policy=RestartPolicy(first_s=1.0, longest_s=3.0, failures=4, window_s=60.0))
    chance = random.Random(seed)
    waits = [restarts.failed(float(second), chance) for second in range(4)]
    assert waits[3] is None
    for wait, bound in zip(waits[:3], (1.0, 2.0, 3.0), strict=True):
        assert wait is not None
        assert bound / 2 <= wait <= bound


def test_failures_long_ago_are_forgiven(chance: random.Random) -> None:
    """An engine that fails now and then, but not often within the window, is started again every time."""
    restarts = Restarts(policy=RestartPolicy(failures=3, window_s=60.0))
    assert all(restarts.failed(float(minute * 40), chance) is not None for minute in range(50))
