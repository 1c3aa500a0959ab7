"""Causes and restarts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.agent.health import Cause, RestartPolicy, Restarts, cause_of


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
