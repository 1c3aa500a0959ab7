"""The time of a request by stage, and the unmeasured rest by name. Pure."""

from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request_record import RequestRecord

NOT_ACCOUNTED = "not accounted"
LEAST_S, LEAST_RATIO = 0.001, 0.01
"""Unmeasured time that is not mentioned: seconds, and share of the request's time."""
_LOST = frozenset({"reset", "silent", "connect"})
_FAILED = frozenset({"engine_error", "handler_error"})
"""An attempt at a worker that answered with a failure, and was not lost."""
_ENDS = {
    Outcome.CANCELLED: ", until its caller left",
    Outcome.DEADLINE: ", until its deadline",
    Outcome.OWN_DEADLINE: ", until its deadline",
    Outcome.SLOW_READER: ", until its reader was given up",
    Outcome.ENGINE_ERROR: ", at the worker that failed",
    Outcome.BROKEN_STREAM: ", after the worker was lost",
    Outcome.FILTERED: ", until a safety pack ended it",
}


def stages_of(record: RequestRecord) -> list[tuple[Stage, float]]:
    return [(stage, record.stages_s[stage]) for stage in Stage if stage in record.stages_s]


def unaccounted_s(record: RequestRecord) -> float:
    """Return the seconds outside all stages; 0 if they are negligible."""
    left_s = record.seconds - sum(record.stages_s.values())
    return left_s if left_s > max(LEAST_S, LEAST_RATIO * record.seconds) else 0.0


def when_unaccounted(record: RequestRecord) -> str:
    """Return the stages between which the unmeasured time lies, if the request's end shows it."""
    if record.continued_s or any(one.failed in _LOST for one in record.attempts):
        return ", after the worker was lost"
    if any(one.failed in _FAILED for one in record.attempts):
        return ", at the worker that failed"
    return _ENDS.get(Outcome(record.outcome), "") if record.attempts else ""


def timeline(record: RequestRecord) -> list[tuple[str, float, float]]:
    """Return name, start and length of each part, in seconds since the request came; the unmeasured rest is last."""
    at, spans = 0.0, []
    parts = [(str(stage), spent) for stage, spent in stages_of(record)]
    for name, spent in [*parts, (NOT_ACCOUNTED, unaccounted_s(record))]:
        if spent or name != NOT_ACCOUNTED:
            spans.append((name, at, spent))
        at += spent
    return spans
