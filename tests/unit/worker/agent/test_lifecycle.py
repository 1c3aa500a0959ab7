"""The worker's life as a state machine."""

from pathlib import Path

import pytest

from penstock.domain.fleet.worker import PhaseTiming, WorkerEnd, WorkerState
from penstock.domain.ids import VersionId
from penstock.worker.agent.lifecycle import LEAST_WAIT_S, Life
from penstock.worker.agent.phases import PhaseMemory

FETCHING, VERIFYING, LOADING = WorkerState.FETCHING, WorkerState.VERIFYING, WorkerState.LOADING
WARMING, READY, DRAINING = WorkerState.WARMING, WorkerState.READY, WorkerState.DRAINING


def lived(*steps: tuple[WorkerState, float], expected: dict[WorkerState, float] | None = None) -> Life:
    life = Life(0.0, expected)
    for state, at in steps:
        life.enter(state, at)
    return life


def test_a_start_times_its_phases() -> None:
    """Each phase of a start is timed when the next one begins, and only a start's phases are."""
    life = lived((VERIFYING, 3.0), (LOADING, 4.0), (WARMING, 9.0), (READY, 10.0))
    assert [(phase.phase, phase.seconds) for phase in life.phases] == [
        (FETCHING, 3.0),
        (VERIFYING, 1.0),
        (LOADING, 5.0),
        (WARMING, 1.0),
    ]
    assert life.enter(DRAINING, 99.0) is None


def test_a_restart_times_only_what_it_repeats() -> None:
    """A restarted engine's verifying and loading replace the old timings, a broken-off phase counts for nothing."""
    life = lived((VERIFYING, 3.0), (LOADING, 4.0), (WARMING, 9.0), (VERIFYING, 20.0), (LOADING, 20.5))
    assert life.enter(WARMING, 22.5) == PhaseTiming(phase=LOADING, seconds=2.0)
    assert dict(life.took_s) == {FETCHING: 3.0, VERIFYING: 0.5, LOADING: 2.0}


def test_what_starting_again_takes_is_told_apart() -> None:
    """Of a first start it is what follows fetching, less the wait for the parent's imports; a restart is measured."""
    life = lived((VERIFYING, 3.0), (LOADING, 4.0))
    life.awaited(26.0)
    life.enter(WARMING, 32.0)
    assert life.restart_s == 0.0
    life.enter(READY, 33.0)
    assert (life.restart_s, sum(phase.seconds for phase in life.phases)) == (1.0 + 2.0 + 1.0, 33.0)
    life.enter(VERIFYING, 50.0)
    assert life.ready_in_s(50.0) == 4.0, "and is what is promised while the engine is started again"
    life.enter(LOADING, 50.5)
    life.awaited(0.0)
    life.enter(WARMING, 52.0)
    life.enter(READY, 52.25)
    assert life.restart_s == 0.5 + 1.5 + 0.25


def test_the_next_worker_does_not_wait_for_imports_that_are_there(tmp_path: Path) -> None:
    """What its predecessor waited for them is expected again only where they are to be made again."""
    memory, version = PhaseMemory(tmp_path), VersionId("toy@0123456789ab")
    memory.keep(version, {VERIFYING: 1.0, LOADING: 28.0}, 26.0)
    assert memory.recall(version) == {VERIFYING: 1.0, LOADING: 28.0}
    assert memory.recall(version, is_warm=True) == {VERIFYING: 1.0, LOADING: 2.0}


@pytest.mark.parametrize("state", [LOADING, WorkerState.COMPILING, WARMING, READY])
def test_no_engine_is_started_again_on_files_that_nobody_verified(state: WorkerState) -> None:
    """Finding 10: from wherever an engine was lost, the way to loading leads through verifying."""
    life = Life(0.0)
    life.state = state
    with pytest.raises(ValueError, match="can't go"):
        life.enter(LOADING, 1.0)
    life.enter(VERIFYING, 1.0)
    life.enter(LOADING, 2.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [(FETCHING, READY), (READY, WARMING), (DRAINING, READY), (WorkerState.STOPPED, LOADING), (FETCHING, LOADING)],
)
def test_impossible_steps_are_refused(before: WorkerState, after: WorkerState) -> None:
    """No state is entered from one that it can't follow."""
    life = Life(0.0)
    life.state = before
    with pytest.raises(ValueError, match=f"from {before} to {after}"):
        life.enter(after, 1.0)


@pytest.mark.parametrize("state", [s for s in WorkerState if s not in (WorkerState.STOPPED, WorkerState.FAILED)])
def test_every_living_state_can_fail(state: WorkerState) -> None:
    """From each state in which a worker lives, it can end as failed, and nothing comes after that."""
    life = Life(0.0)
    life.state = state
    life.enter(WorkerState.FAILED, 1.0, "why")
    assert (life.state, life.detail) == (WorkerState.FAILED, "why")
    with pytest.raises(ValueError, match="can't go"):
        life.enter(LOADING, 2.0)


def test_the_expected_wait_shrinks_and_never_reaches_zero_before_ready() -> None:
    """Seconds to ready are those of the last start less what has passed, at least a little, and zero when ready."""
    expected = {FETCHING: 2.0, VERIFYING: 1.0, LOADING: 10.0, WARMING: 2.0}
    life = lived(expected=expected)
    assert life.ready_in_s(0.5) == 14.5
    life.enter(VERIFYING, 1.0)
    life.enter(LOADING, 2.0)
    assert life.ready_in_s(4.0) == 10.0
    assert life.ready_in_s(402.0) == 100.0 + 2.0, "late: a quarter of what loading has taken, again, and warming"
    life.enter(WARMING, 402.0)
    assert life.ready_in_s(404.0 - 1e-6) == LEAST_WAIT_S
    life.enter(READY, 405.0)
    assert life.ready_in_s(406.0) == 0.0


def test_a_first_start_promises_nothing() -> None:
    """Without an earlier start there is nothing to expect by."""
    assert lived().ready_in_s(5.0) == 0.0


def test_the_first_reason_to_go_is_the_one_that_counts() -> None:
    """Who was ordered to drain and hears a signal as well goes because of the order."""
    life = lived((DRAINING, 1.0))
    assert life.end is None
    life.will_end(WorkerEnd.DRAINED)
    life.will_end(WorkerEnd.NOTICE)
    assert life.end is WorkerEnd.DRAINED


SLEEPING, WAKING = WorkerState.SLEEPING, WorkerState.WAKING


def asleep() -> Life:
    life = lived((VERIFYING, 3.0), (LOADING, 4.0), (WARMING, 9.0), (READY, 10.0), (SLEEPING, 20.0))
    life.gave_back()
    return life


def test_a_wake_is_timed_like_a_start() -> None:
    """What a wake took is what the next one is expected to take, and nothing before it counts."""
    life = asleep()
    assert life.restart_s == 1.0 + 5.0 + 1.0, "by the only start there was"
    life.enter(WAKING, 50.0)
    assert life.ready_in_s(50.0) == 1.0 + 5.0 + 1.0
    assert life.enter(WARMING, 52.0) == PhaseTiming(phase=WAKING, seconds=2.0)
    life.enter(READY, 52.5)
    assert life.restart_s == 2.5
    life.enter(SLEEPING, 60.0)
    life.enter(WAKING, 61.0)
    assert life.ready_in_s(61.5) == 2.0


def test_a_wake_tells_its_own_phases() -> None:
    """From its first phase's end on those are a wake's, by which the controller knows it; a restart's are a start's."""
    life = asleep()
    life.enter(WAKING, 50.0)
    assert [one.phase for one in life.phases] == [FETCHING, VERIFYING, LOADING, WARMING], "still those of the start"
    life.enter(WARMING, 52.0)
    assert life.phases[0] == PhaseTiming(phase=WAKING, seconds=2.0)
    life.enter(READY, 52.5)
    assert [(one.phase, one.seconds) for one in life.phases] == [(WAKING, 2.0), (WARMING, 0.5)]
    life.enter(VERIFYING, 60.0)
    life.enter(LOADING, 61.0)
    assert WAKING not in {one.phase for one in life.phases}


def test_a_sleeper_that_never_ran_says_what_its_predecessor_took() -> None:
    """Told to sleep before its first start, it has the remembered phases to go by, but for fetching."""
    life = lived(
        (VERIFYING, 3.0), (SLEEPING, 4.0), expected={FETCHING: 9.0, VERIFYING: 1.0, LOADING: 2.0, WARMING: 1.0}
    )
    assert not life.holds_memory
    life.gave_back()
    assert life.restart_s == 4.0


def test_who_is_told_to_sleep_holds_its_memory_until_it_gave_it_back() -> None:
    """Streams still run: they may end, or the worker may be told to serve on before they have."""
    life = lived((VERIFYING, 3.0), (LOADING, 4.0), (WARMING, 9.0), (READY, 10.0), (SLEEPING, 20.0))
    assert [life.holds_memory] == [True]
    life.enter(READY, 21.0)
    life.enter(SLEEPING, 22.0)
    life.gave_back()
    assert [life.holds_memory, life.enter(WAKING, 23.0), life.holds_memory] == [False, None, True]


def test_a_wake_that_fails_is_a_start_that_failed() -> None:
    """It goes on as any restart does, from its files; nobody becomes ready without golden prompts."""
    life = asleep()
    life.enter(WAKING, 30.0)
    with pytest.raises(ValueError, match="can't go"):
        life.enter(READY, 31.0)
    life.enter(VERIFYING, 31.0)
    life.enter(LOADING, 32.0)
    life.enter(WARMING, 33.0)
    life.enter(READY, 34.0)
    assert life.restart_s == 3.0
