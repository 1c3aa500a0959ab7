"""Retry times during an outage."""

import pytest

from penstock.domain.outage import LONGEST_WAIT_S, SHORTEST_WAIT_S, retry_after_s


@pytest.mark.parametrize(
    ("outage_s", "wait_s"), [(0.0, SHORTEST_WAIT_S), (0.4, SHORTEST_WAIT_S), (7.0, 7.0), (1e6, LONGEST_WAIT_S)]
)
def test_a_caller_waits_as_long_as_the_outage_lasts_already(outage_s: float, wait_s: float) -> None:
    """Retries become rarer during a long outage, and stay within a second and a minute."""
    assert retry_after_s(outage_s) == wait_s
