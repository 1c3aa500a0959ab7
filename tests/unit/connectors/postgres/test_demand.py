"""A report in notifications: split, joined, and left out if a part is missing."""

from penstock.connectors.postgres.demand import MOST_PARTS, PART_BYTES, Assembly, parts
from tests.contracts.test_demand import report


def test_parts_fit_a_notification_and_join_to_the_report() -> None:
    """Postgres refuses 8,000 bytes; order does not matter."""
    told = report(1, versions=1_000)
    sent = parts(told)
    assert 1 < len(sent) <= MOST_PARTS
    assert max(len(one.encode()) for one in sent) < PART_BYTES + 200
    assembly = Assembly()
    assert [assembly.take(one) for one in reversed(sent)] == [None] * (len(sent) - 1) + [told]


def test_a_report_with_a_lost_part_is_left_out() -> None:
    """The next report is whole."""
    assembly = Assembly()
    for one in parts(report(1, versions=1_000))[1:]:
        assert assembly.take(one) is None
    assert [assembly.take(one) for one in parts(report(2, versions=1_000))][-1] == report(2, versions=1_000)
    assert assembly.refused == 0


def test_beginnings_of_reports_fill_no_memory() -> None:
    """A name in each notification costs a bounded number of parts."""
    assembly = Assembly()
    for number in range(10 * MOST_PARTS):
        assembly.take(f"g{number} 1 0 2 x")
    assert len(assembly._parts) == MOST_PARTS
