"""The number of jobs that a runner claims, by the loads of workers and by what it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.report import Load
from penstock.jobs.window import MOST_HELD, UNKNOWN_SEATS, WAITING, Lane, room, rooms, shut

LOADS = st.builds(Load, running=st.integers(0, 64), waiting=st.integers(0, 8))
LANES = st.builds(
    Lane,
    loads=st.lists(LOADS, max_size=4).map(tuple),
    seats=st.integers(0, 64),
    held=st.integers(0, 100),
    fresh=st.integers(0, 16),
)
A, B = VersionId("a@1"), VersionId("b@2")


def test_an_idle_worker_is_filled_and_has_a_few_waiting() -> None:
    """Its seats, and the jobs that wait for the next one."""
    assert room(Lane(loads=(Load(),), seats=16)) == 16 + WAITING


def test_a_worker_with_waiting_requests_gets_none() -> None:
    """Its door seats no more of them: another one would only wait there."""
    assert room(Lane(loads=(Load(running=3, waiting=WAITING),), seats=16)) == 0


def test_jobs_that_no_report_contains_yet_count() -> None:
    """Two claims within a second don't fill the same seats twice."""
    assert room(Lane(loads=(Load(),), seats=4, held=4, fresh=4)) == WAITING


def test_a_version_that_sleeps_gets_one() -> None:
    """One held job wakes it; the others stay in their fair order."""
    assert [room(Lane(loads=(), seats=4, held=held)) for held in (0, 1)] == [1, 0]


def test_unknown_seats_are_few() -> None:
    """An engine that tells no seats gets a small number."""
    assert room(Lane(loads=(Load(),), seats=0)) == UNKNOWN_SEATS + WAITING


@given(st.dictionaries(st.sampled_from([A, B, VersionId("c@3")]), LANES))
def test_a_runner_never_holds_more_than_its_part(lanes: dict[VersionId, Lane]) -> None:
    """Whatever the loads say, the sum of held and claimed stays within the bound."""
    held, found = sum(lane.held for lane in lanes.values()), rooms(lanes)
    assert all(0 < wanted <= room(lanes[version]) for version, wanted in found.items())
    assert sum(found.values()) <= max(0, MOST_HELD - held)


CONFINED = {TenantId("a"): frozenset({"spot"}), TenantId("b"): frozenset({"spot", "nights"})}
FULL = Load(running=4, waiting=WAITING)


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        (Lane(loads=(Load(),), seats=4, pools=(("spot",),)), ""),
        (Lane(loads=(Load(), FULL), seats=4, pools=(("on-demand", "nights"), ("spot",))), "a"),
        (Lane(loads=(Load(),), seats=4, pools=(("on-demand",),)), "ab"),
        (Lane(loads=(Load(),), seats=4, pools=((),)), "ab"),
        (Lane(loads=(), seats=4, pools=(("on-demand",), ("spot",))), ""),
        (Lane(loads=(), seats=4, pools=(("on-demand",),)), "ab"),
        (Lane(loads=(), seats=4), ""),
    ],
    ids=["free", "full there", "elsewhere", "unknown", "asleep there", "asleep elsewhere", "nobody yet"],
)
def test_a_plans_pools_are_shut_without_a_worker_there(lane: Lane, expected: str) -> None:
    """A worker of another pool is not woken for it; a version without any worker is, for nobody knows its pool."""
    assert shut(lane, CONFINED) == set(expected)
    assert shut(lane, {}) == set()


def test_a_large_version_leaves_room_for_a_small_one() -> None:
    """The smallest wish is granted first."""
    large, small = Lane(loads=(Load(),) * 100, seats=256), Lane(loads=(Load(),), seats=4)
    assert rooms({A: large, B: small}) == {A: MOST_HELD - 4 - WAITING, B: 4 + WAITING}
