"""The retry time for callers that are refused during an outage of a store."""

SHORTEST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Bounds of a ``Retry-After``: the header counts in whole seconds, and no forecast reaches further than a minute."""


def retry_after_s(outage_s: float) -> float:
    """The outage so far, within bounds: a caller finds the store back after at most twice the outage, and a long one
    gets few retries.
    """
    return min(LONGEST_WAIT_S, max(SHORTEST_WAIT_S, outage_s))
