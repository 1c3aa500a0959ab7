"""Good and bad events of an indicator, request by request: the load test's reading of ``domain/serving/slo.py``.

It sees what a caller sees, and counts latency from the planned time. A request with an unknown value is no event: it is
neither good nor bad, and never 0.
"""

from collections.abc import Callable, Iterator, Mapping

from loadtests.drive.records import End, Record
from penstock.domain.serving.slo import Indicator

NO_CAPACITY = 503
Events = Callable[[Record, float], Iterator[bool]]
"""Yields True for each good and False for each bad event; the second argument is a timed objective's bound."""


def availability(record: Record, *, is_refusal_expected: bool) -> Iterator[bool]:
    """Yield whether the target did its part. A caller's own limit, fault or absence is no event.

    A refusal without a ``Retry-After`` is bad, also if the caller is at fault.
    """
    if record.end is End.REFUSED:
        if record.retry_after_s is None or (record.status == NO_CAPACITY and not is_refusal_expected):
            yield False
    elif record.end is End.BROKEN and record.slow:
        return
    elif record.end not in (End.WRONG, End.LEFT):
        yield record.end is End.WHOLE


def _completion(record: Record, _: float) -> Iterator[bool]:
    if record.first_at is not None and record.end is not End.LEFT and not record.slow:
        yield record.end is End.WHOLE


def _ttft(record: Record, within_s: float) -> Iterator[bool]:
    if record.unary:
        return
    if record.ttft_s is not None:
        yield record.ttft_s <= within_s
    elif record.end is End.LATE and record.whole_s > within_s:
        yield False


def _itl(record: Record, within_s: float) -> Iterator[bool]:
    if not record.slow:  # a slow reader times itself
        yield from (gap_s <= within_s for gap_s in record.gaps_s)


def _latency(record: Record, within_s: float) -> Iterator[bool]:
    if record.unary and record.end in (End.WHOLE, End.LATE):
        yield record.end is End.WHOLE and record.whole_s <= within_s


def _no_event(_record: Record, _within_s: float) -> Iterator[bool]:
    """Yield nothing: callers that wait submit no jobs."""
    return iter(())


def readers(*, is_refusal_expected: bool) -> Mapping[Indicator, Events]:
    """Return what reads each indicator out of a record."""
    return {
        Indicator.AVAILABILITY: lambda record, _: availability(record, is_refusal_expected=is_refusal_expected),
        Indicator.STREAM_COMPLETION: _completion,
        Indicator.TTFT: _ttft,
        Indicator.ITL: _itl,
        Indicator.LATENCY: _latency,
        Indicator.TURNAROUND: _no_event,
    }
