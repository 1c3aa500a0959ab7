"""The checker of a batch's history accepts what may happen, and finds each thing that must not."""

from dataclasses import replace

import pytest

from tests.support.jobs.history import BatchHistory, Bill, Line, faults

LINES = (
    Line(name="l1", state="succeeded", attempt=2, request="l1-2", lost=["l1-1"]),
    Line(name="l2", state="cancelled", attempt=1, request="l2-1"),
)
BILLS = (
    Bill(request="l1-1", cost=0, tokens=3),
    Bill(request="l1-2", cost=5, tokens=8),
    Bill(request="l2-1", cost=0, tokens=1),
)
GOOD = BatchHistory(
    custom_ids=["a", "b"],
    state="cancelled",
    total=2,
    completed=1,
    tokens=8,
    output=["a"],
    errors=["b"],
    lines=LINES,
    bills=BILLS,
    result_files=2,
    reserved={"tokens": 0, "jobs": 0},
    lanes=0,
    deliveries=["delivered"],
    messages=["m1", "m1"],
)


def test_what_may_happen_is_accepted() -> None:
    """A lost attempt, a cancelled line and a message that came twice."""
    assert faults(GOOD) == []
    assert (GOOD.lost, GOOD.doubled) == (0, 0)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("each_line_once", {"errors": []}),
        ("each_line_once", {"errors": ["b", "a"]}),
        ("each_line_once", {"errors": ["b", "c"]}),
        ("each_line_once", {"total": 3}),
        ("each_line_once", {"completed": 2}),
        ("one_result_each", {"lines": LINES[:1]}),
        ("one_result_each", {"lines": (replace(LINES[0], state="failed"), LINES[1])}),
        ("one_result_each", {"result_files": 3}),
        ("attempts_are_billed", {"bills": BILLS[1:]}),
        ("attempts_are_billed", {"bills": (*BILLS, BILLS[0])}),
        ("attempts_are_billed", {"bills": (*BILLS[:2], replace(BILLS[2], cost=1))}),
        ("attempts_are_billed", {"bills": (BILLS[0], replace(BILLS[1], tokens=7), BILLS[2])}),
        ("attempts_are_billed", {"lines": (replace(LINES[0], attempt=3), LINES[1])}),
        ("nothing_is_held", {"reserved": {"tokens": 0, "jobs": 1}}),
        ("nothing_is_stuck", {"state": "finalizing"}),
        ("nothing_is_stuck", {"lines": (LINES[0], replace(LINES[1], state="running"))}),
        ("nothing_is_stuck", {"lanes": 1}),
        ("its_end_is_told", {"deliveries": ["sending"]}),
        ("its_end_is_told", {"deliveries": ["delivered", "delivered"]}),
        ("its_end_is_told", {"messages": []}),
        ("its_end_is_told", {"messages": ["m1", "m2"]}),
    ],
)
def test_what_must_not_happen_is_found(rule: str, change: dict[str, object]) -> None:
    """By the rule that is about it."""
    found = faults(replace(GOOD, **change))  # type: ignore[arg-type]  # any field
    assert any(one.startswith(rule) for one in found), found


def test_lost_and_doubled_lines_are_counted() -> None:
    """As the table has them, whatever else is wrong."""
    assert replace(GOOD, errors=[]).lost == 1
    assert replace(GOOD, errors=["b", "b", "a"]).doubled == 2
