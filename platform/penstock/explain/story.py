"""The story of one request, from its record: why it was slow, expensive, or refused. Pure.

Each function describes one part of the request's life in sentences, in order. Missing records are described as unknown.
"""

from collections.abc import Iterator
from typing import Any

from penstock.domain.money import dollars
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request_record import Refusal, RequestRecord
from penstock.domain.tenancy.tenant import TierName
from penstock.explain.judging import Judged, cost, judged
from penstock.explain.placing import adapters, attempts, batches, doors, workers
from penstock.explain.words import count, listed, moment, seconds


def shown(record: RequestRecord) -> dict[str, Any]:
    attempts = [one._asdict() for one in record.attempts]
    told = {"says": tell(record), "timeline": timeline(record), "attempts": attempts}
    judgement = {"cost_micro_usd": cost(record), "promises": [_named(one) for one in judged(record)]}
    return {"object": "request", **_named(record), **judgement, **told}


def _named(value: object) -> Any:  # noqa: ANN401  as JSON
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _named(one) for name, one in value._asdict().items()}
    return [_named(one) for one in value] if isinstance(value, tuple | list) else value


_LEAST_S = 0.001
"""Seconds: filters judge a token in less, and that is no wait."""
_RATES = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "concurrent": "requests at a time",
    "streams": "streams at a time",
}
"""Suffixes of meters that count something other than money (docs/reference/limits-store.md)."""


def tell(record: RequestRecord) -> list[str]:
    if record.replay_of:
        return list(_replay(record))
    parts = (
        _end,
        _ruled,
        _time,
        _limits,
        workers,
        attempts,
        doors,
        adapters,
        batches,
        _continued,
        _engine,
        _cost,
        _promises,
    )
    return [sentence for part in parts for sentence in part(record)]


def _replay(record: RequestRecord) -> Iterator[str]:
    yield from _end(record)
    yield f"It repeated the answer to {record.replay_of} under its idempotency key, and cost nothing: explain that one."


def _end(record: RequestRecord) -> Iterator[str]:
    asked = f"{record.id} of {_caller(record)} came on {moment(record.at)} to {record.api}"
    version = f" for {record.version}" if record.version else ""
    if record.outcome == Outcome.OK:
        yield f"{asked}{version} and was answered in {seconds(record.seconds)}."
        return
    refusal = record.refusal
    why = _why(refusal) if refusal else "the reason was not recorded"
    verb = "ended" if record.attempts else "was refused"
    yield f"{asked}{version} and {verb} as {record.outcome} after {seconds(record.seconds)}: {why}."
    if refusal is not None and refusal.retry_after_s is not None:
        yield f"It was told to come back in {seconds(refusal.retry_after_s)}."


def _caller(record: RequestRecord) -> str:
    if record.tenant:
        return f"tenant {record.tenant} (key {record.key})"
    return f"an unknown tenant (key {record.key})" if record.key else "a caller without an API key's credential"


def _why(refusal: Refusal) -> str:
    return f"{refusal.code}: {refusal.says.rstrip('.')}" if refusal.says else refusal.code


def _time(record: RequestRecord) -> Iterator[str]:
    stages = sorted(stages_of(record), key=lambda one: -one[1])
    if stages:
        longest = [f"{stage} {seconds(spent)}" for stage, spent in stages[:3]]
        yield f"Its time went to {listed(longest)}."
    if woken_s := dict(stages).get(Stage.WAKE):
        yield f"No worker of its version served when it came: it was held for {seconds(woken_s)}, until one did."
    if left_s := unaccounted_s(record):
        yield f"Not accounted: {seconds(left_s)}{when_unaccounted(record)}."
    yield from _first(record)
    if record.deadline_s is not None:
        yield f"Its deadline was {seconds(record.deadline_s)} after it came."


def _first(record: RequestRecord) -> Iterator[str]:
    if record.ttft_s is None or not record.stream:
        return
    came, visible_s = f"Its first token came after {seconds(record.ttft_s)}", record.visible_s or record.ttft_s
    held_s = visible_s - record.ttft_s
    held = f"; filters let it leave after {seconds(visible_s)}, {seconds(held_s)} later" if held_s >= _LEAST_S else ""
    yield f"{came}{held}."


def _ruled(record: RequestRecord) -> Iterator[str]:
    if record.ruled is None or not record.ruled.rule:
        return
    alias, rule, to, passed = record.ruled
    before = f", after {listed([f'{name} ({why})' for name, why in passed])}" if passed else ""
    yield f"Of the rules of {alias}, {rule} led it to {to}{before}."


def _limits(record: RequestRecord) -> Iterator[str]:
    if record.fell_back_from:
        yield f"It fell to {record.fell_back_from}, which could take no requests here: its alias's fallback had it."
    if record.degraded:
        yield f"It was degraded, as its tenant prefers to a refusal: {listed(record.degraded)}."
    if record.over_quota:
        yield "It ran beyond its tenant's rates, on capacity that no other tenant used."
    if record.drawn is None and record.outcome in _BY_LIMIT:
        yield "Its limits refused it before it was read: what the others had left is unknown."
    elif record.drawn is None:
        yield "It never came to its limits: what they had left is unknown."
    elif not record.drawn:
        yield "Neither its key, its tenant nor its organisation has a limit that counts."
    for one in record.drawn or ():
        scope, last = ":".join(one.meter.split(":")[:2]), one.meter.rpartition(":")[2]
        refused = record.refusal is not None and not record.attempts and record.outcome in _BY_LIMIT
        verb = "Asked for" if refused else "Drawn:"
        of, left = f"{_amount(last, one.capacity)} {_meter(last)} ({scope})", _left(last, one.left)
        yield f"{verb} {_amount(last, one.amount)} of {of}, {left}."


_BY_LIMIT = frozenset({Outcome.OVER_LIMIT, Outcome.OVER_BUDGET})


def _amount(last: str, amount: int) -> str:
    return f"{amount:,}" if last in _RATES else dollars(amount)


def _left(last: str, left: int | None) -> str:
    """Describe what is left of a limit: less than nothing if running answers used more than they had reserved."""
    if left is None:
        return "what was left is unknown"
    return f"{_amount(last, left)} left" if left >= 0 else f"nothing left, and {_amount(last, -left)} beyond it"


def _meter(last: str) -> str:
    return _RATES.get(last, f"for {last}")


def _continued(record: RequestRecord) -> Iterator[str]:
    if record.continued_s:
        moments = listed([seconds(one) for one in record.continued_s])
        yield f"Its worker was lost in the middle of the stream; another one went on with it {moments} after it came."


def _engine(record: RequestRecord) -> Iterator[str]:
    if record.prompt_tokens is None or record.output_tokens is None:
        if record.attempts:
            yield "How many tokens it took is unknown."
        return
    kind = "" if record.exact else " (an estimate)"
    yield (
        f"It took {count(record.prompt_tokens, 'prompt token')} ({record.cached_tokens or 0:,} of them cached)"
        f" and {count(record.output_tokens, 'output token')}{kind}."
    )
    if record.steps and record.beside:
        beside = record.beside / record.steps - 1
        steps = count(record.steps, "step")
        yield f"They came of {steps} of the engine, shared with {beside:.1f} other sequences on average."
    elif record.attempts:
        yield "With how many it shared the engine's steps is unknown."


def _cost(record: RequestRecord) -> Iterator[str]:
    if record.service_tier not in ("", TierName.DEFAULT):
        yield f"It was served in service tier {record.service_tier}, at {record.price_factor:g} of the version's price."
    micro = cost(record)
    if not micro:
        yield "It cost nothing."
    elif record.price is not None:
        prompt, cached, output = (dollars(one) for one in record.price)
        yield (
            f"It cost {dollars(micro)}, at {prompt} for a million prompt tokens, {cached} from the cache"
            f" and {output} for output."
        )


def _promises(record: RequestRecord) -> Iterator[str]:
    found = judged(record)
    if not found:
        yield "No promise of the platform applies to it."
    for one in found:
        yield _promise(one)


def _promise(one: Judged) -> str:
    verdict = "met" if one.is_good else "MISSED"
    if one.within_s is None or one.got_s is None:
        return f"Promise {one.indicator}: {verdict}."
    promise = f"Promise {one.indicator} within {seconds(one.within_s)}"
    if one.late is None:
        return f"{promise}: {seconds(one.got_s)}, {verdict}."
    late, most = f"{one.late:,} of {count(one.of, 'gap')}", f"{one.most_late_ratio * 100:.3g} %"
    return f"{promise}: {late} took longer, the longest {seconds(one.got_s)}; at most {most} may: {verdict}."


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
