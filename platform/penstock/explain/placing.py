"""The routing of a request in sentences: compared workers, failed attempts, waits in queues, its batch. Pure."""

from collections.abc import Iterator

from penstock.domain.serving.report import AT_ONCE, Adapted, Batched, Met, Trigger, Waited
from penstock.domain.serving.request_record import Choice, Considered, RequestRecord, Tried
from penstock.explain.words import count, listed, seconds

AS_GOOD = 0.01
"""Difference of scores below which a pick treats workers as equal."""
_FAILED = {
    "connect": "could not be reached",
    "reset": "was lost before its answer was complete",
    "silent": "said nothing until the deadline",
    "engine_error": "answered with an error of its engine",
    "handler_error": "answered that the handler of its model failed",
    "refused": "did not accept the request",
    "draining": "was shutting down",
    "late": "could not have answered before the deadline",
    "computing": "was computing when the deadline passed",
    "overloaded": "was full",
    "adapter": "could not answer with the adapter",
    "evicted": "took somebody of a better standing in its place",
    "engine_full": "had a full engine",
    "ticket": "did not know this gateway",
}


_STARTED = {
    Trigger.SIZE: "it was full",
    Trigger.BUDGET: "one more would have been beyond its tokens or seconds",
    Trigger.DEADLINE: "later it would have been too late for its earliest deadline",
    Trigger.WAIT: "somebody in it had waited as long as the promise leaves",
    Trigger.IDLE: "the device was free and nobody was expected soon enough",
}


def workers(record: RequestRecord) -> Iterator[str]:
    if not record.choices and record.drawn is not None:
        yield "No worker was chosen."
    for number, choice in enumerate(record.choices, start=1):
        pick = "" if len(record.choices) == 1 else f"Pick {number}: "
        yield f"{pick}{_pick(choice)}"


def _pick(choice: Choice) -> str:
    serving = f"of {count(choice.serving, 'worker')} that serve" if choice.serving != 1 else "the one that serves"
    met = f", {choice.met_before} of them passed over" if choice.met_before else ""
    if choice.compared == 1:
        return f"{choice.worker} was chosen, {serving}{met}; no other could be asked."
    chosen = next(one for one in choice.best if one.worker == choice.worker)
    others = [one for one in choice.best if one.worker != choice.worker]
    lost = "; ".join(f"{one.worker} ({_score(one)}) {_why_lost(one, chosen)}" for one in others)
    rest = choice.compared - len(choice.best)
    more = f"; {count(rest, 'other')} scored less" if rest > 0 else ""
    return f"{choice.worker} ({_score(chosen)}) was chosen among {choice.compared}, {serving}{met}: {lost}{more}."


def _score(one: Considered) -> str:
    return "not scored" if one.score is None else f"score {one.score:.3f}"


def _why_lost(other: Considered, chosen: Considered) -> str:
    if other.score is not None and chosen.score is not None and other.score >= chosen.score - AS_GOOD:
        return "was as good, and chance decided"
    reasons = []
    if other.work_tokens > chosen.work_tokens:
        reasons.append(f"had {other.work_tokens - chosen.work_tokens:,.0f} tokens of work more before it")
    if other.cached_tokens < chosen.cached_tokens:
        reasons.append(f"held {chosen.cached_tokens - other.cached_tokens:,} tokens of the prompt less")
    if other.kv_used_ratio > chosen.kv_used_ratio:
        reasons.append(f"had {other.kv_used_ratio:.0%} of its KV blocks in use against {chosen.kv_used_ratio:.0%}")
    return listed(reasons) if reasons else "scored less"


def attempts(record: RequestRecord) -> Iterator[str]:
    """Describe the workers that failed on the request, and the one that finally took it."""
    failed = [one for one in record.attempts if one.failed]
    for one in failed:
        why = _FAILED.get(one.failed, one.failed)
        yield f"Sent to {one.worker} after {seconds(one.sent_s)}, which {why}."
    if failed and record.attempts[-1] not in failed:
        last = record.attempts[-1]
        yield f"Then {last.worker} took it, {seconds(last.sent_s)} after it had come."


def doors(record: RequestRecord) -> Iterator[str]:
    for one in record.attempts:
        waited = one.door
        if not isinstance(waited, Waited):
            yield f"How it fared at the door of {one.worker} is unknown."
        elif waited == AT_ONCE:
            yield f"It entered the engine of {one.worker} at once: nobody was in its way."
        else:
            yield from _waited(one, waited)


def _about(tenants: int) -> str:
    return f"{count(tenants, 'other tenant')} {'was' if tenants == 1 else 'were'} about"


def _waited(one: Tried, waited: Waited) -> Iterator[str]:
    found = f"{count(waited.waiting, 'request')} waited there, {_about(waited.tenants)}"
    share = "" if waited.share is None else f"; its tenant's share of the engine was {waited.share:.0%}"
    yield (
        f"At the door of {one.worker} it was to wait {seconds(waited.predicted_s)} and waited "
        f"{seconds(waited.waited_s)}: {found}{share}."
    )
    went = [f"{ahead.own + ahead.others} {ahead.standing} ({ahead.own} its tenant's own)" for ahead in waited.ahead]
    yield f"Meanwhile went before it: {listed(went)}." if went else "Nobody went before it meanwhile."


def adapters(record: RequestRecord) -> Iterator[str]:
    for one in record.attempts:
        found = one.adapter
        if not isinstance(found, Adapted):
            continue
        took = seconds(found.waited_s)
        if found.met is Met.HIT:
            yield f"{one.worker} held its adapter, with a slot for it: it waited for neither."
        elif found.met is Met.QUEUED:
            yield f"{one.worker} held its adapter, and others had all slots: it waited {took} for one."
        else:
            yield f"{one.worker} had to load its adapter first: it waited {took} until that was there and checked."


def batches(record: RequestRecord) -> Iterator[str]:
    for one in record.attempts:
        batch = one.batch
        if isinstance(batch, Batched):
            size = "alone" if batch.size == 1 else f"in a batch of {batch.size}"
            yield (
                f"{one.worker} computed it {size}, after a wait of {seconds(batch.waited_s)} for it:"
                f" the batch started because {_STARTED[batch.trigger]}."
            )
