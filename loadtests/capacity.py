"""What a target can do: whole answers a second, for callers that wait for each other and ask all the same.

Some scenarios offer a multiple of it. The same generator measures it, with the scenario's own lengths and tenants.
"""

from collections.abc import Sequence

from loadtests.drive.records import End, Record

CALLERS = 32
SECONDS = 30.0
WARM_S = 8.0
"""Answers that end sooner belong to an engine that is still filling, and do not count."""
FEWEST = 10
TURNS = 500
"""More than a caller gets done."""


def of(records: Sequence[Record], until_s: float) -> float | None:
    """Return whole answers a second up to here; None if there were too few to say."""
    whole = sum(record.end is End.WHOLE and WARM_S <= record.ended_at < until_s for record in records)
    return whole / (until_s - WARM_S) if whole >= FEWEST else None
