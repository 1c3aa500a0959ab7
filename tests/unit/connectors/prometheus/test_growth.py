"""By how much a counter grew: what was born counts whole, what was only not seen is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.prometheus.growth import Page, Point, growth

BEGIN, OLD, YOUNG = 100.0, 50.0, 105.0
READ = Page(read_at=BEGIN)
COUNTS = st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=12)


@given(COUNTS, st.integers(min_value=0, max_value=1000))
def test_a_counter_that_was_there_grew_by_what_was_added(added: list[int], had: int) -> None:
    """Of a counter that was seen at the begin only what came after counts."""
    values = [had + sum(added[:i]) for i in range(len(added) + 1)]
    assert growth([Point(BEGIN + i, value) for i, value in enumerate(values)], Page(), BEGIN) == sum(added)


@given(COUNTS)
def test_a_counter_that_was_born_counts_whole(added: list[int]) -> None:
    """Of a counter that was created in the window everything counts, whatever else is known."""
    points = [Point(YOUNG + i, sum(added[: i + 1]), YOUNG) for i in range(len(added))]
    assert growth(points, Page(), BEGIN) == sum(added)


@pytest.mark.parametrize(
    ("page", "created", "grown"),
    [
        (Page(), None, None),
        (READ, None, 7.0),
        (Page(read_at=YOUNG + 5), None, None),
        (Page(started_at=YOUNG), None, 7.0),
        (Page(started_at=OLD), None, None),
        (Page(started_at=OLD, read_at=BEGIN), None, 7.0),
        (READ, OLD, None),
        (Page(), YOUNG, 7.0),
    ],
)
def test_born_or_only_not_seen(page: Page, created: float | None, grown: float | None) -> None:
    """A counter's own time of creation decides, then its process's start, then that its page was read without it."""
    assert growth([Point(YOUNG + 5, 7.0, created)], page, BEGIN) == grown


def test_a_restart_is_seen_where_the_counter_is_greater_than_before() -> None:
    """A counter that was created anew counts whole, though it had less before."""
    assert growth([Point(BEGIN, 3.0, OLD), Point(YOUNG, 8.0, YOUNG)], READ, BEGIN) == 8.0


def test_a_value_that_is_no_number_makes_the_growth_unknown() -> None:
    """What is no number is not 0."""
    assert growth([Point(BEGIN, 1.0), Point(YOUNG, None)], READ, BEGIN) is None
