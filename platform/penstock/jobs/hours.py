"""Whether a plan's hours for batch work are open at a moment, by the clock on the wall of its time zone. Pure.

Hours that a change to summer time skips do not open; those that it repeats are open twice.
"""

from datetime import UTC, datetime, timedelta

from penstock.domain.tenancy.batch_hours import BatchHours, Span


def is_open(hours: BatchHours | None, at: float) -> bool:
    """Tell whether batch work may begin at Unix second ``at``; without hours it always may."""
    if hours is None:
        return True
    local = datetime.fromtimestamp(at, tz=UTC).astimezone(hours.zone)
    minute, day = local.hour * 60 + local.minute, local.weekday()
    yesterday = (local - timedelta(days=1)).weekday()
    return any(_holds(span, minute, day, yesterday) for span in hours.spans)


def _holds(span: Span, minute: int, day: int, yesterday: int) -> bool:
    if span.begin_min < span.end_min:
        return day in span.days and span.begin_min <= minute < span.end_min
    return (day in span.days and minute >= span.begin_min) or (yesterday in span.days and minute < span.end_min)
