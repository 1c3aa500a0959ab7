"""The errors of limits and budgets: scope and limit, retry time, the rest of each limit.

A budget's refusal separates spent from held money: only spent money lasts until its window ends.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil

from penstock.domain.errors import BudgetHeld, ExceedsLimit, OverBudget, OverLimit
from penstock.domain.money import dollars
from penstock.domain.tenancy.limits import Draw, Measure, MeterDecision, MeterKind

SECOND_MS, MINUTE_MS = 1000, 60_000
ROUNDING_MS = 1e-6
"""Tolerance for floating point when rounding up to whole milliseconds."""

_NAMES = {
    measure: tuple(b"x-ratelimit-%b-%b" % (name, measure.encode()) for name in (b"limit", b"remaining", b"reset"))
    for measure in (Measure.REQUESTS, Measure.TOKENS)
}

_WHAT = {
    Measure.REQUESTS: "requests a minute",
    Measure.TOKENS: "tokens a minute",
    Measure.CONCURRENCY: "requests at a time",
    Measure.STREAMS: "streams at a time",
}
_DAY_CHARS = len("2026-11-21")

Headers = list[tuple[bytes, bytes]]


def over_limit(draw: Draw, retry_after_s: float, headers: Headers) -> OverLimit:
    scope, reason = _scope(draw), _reason(draw)
    limit = f"the {scope}'s limit of {draw.capacity} {_WHAT[draw.measure]}"
    if draw.amount > draw.capacity:
        why = f": it counts as {draw.amount}, prompts times n" if draw.measure is Measure.CONCURRENCY else ""
        return ExceedsLimit(f"this request alone exceeds {limit}{why}", reason=reason, headers=headers)
    counted = " for this model" if draw.kind is MeterKind.BUCKET else ""  # a bucket is of one version (B2)
    return OverLimit(f"{limit} is reached{counted}", retry_after_s=retry_after_s, reason=reason, headers=headers)


def over_budget(
    refused: MeterDecision, draw: Draw, free_in_s: float, headers: Headers, now: float, *, has_run: bool = False
) -> OverBudget:
    """``now`` is Unix seconds, ``free_in_s`` the expected end of a running request; ``has_run``: it got no top-up."""
    kind, text, wait_s = _case(refused, draw, free_in_s, now, has_run=has_run)
    return kind(text, retry_after_s=wait_s, reason=_reason(draw), headers=headers)


def _case(
    refused: MeterDecision, draw: Draw, free_in_s: float, now: float, *, has_run: bool
) -> tuple[type[OverBudget], str, float | None]:
    budget, ends, until_end_s = _budget(draw), _ends(draw, now), draw.window_ends_in_s
    if refused.spent >= draw.capacity:
        return OverBudget, f"{budget} is used up; {ends}", until_end_s
    left = f"{budget} has {_dollars(draw.capacity - refused.spent - refused.held)} left{_beside(refused)}"
    if has_run:
        return OverBudget, f"{left}, too little for the rest of this answer; {ends}", until_end_s
    asked = f"this request may cost {_dollars(draw.amount)}"
    if draw.amount > draw.capacity:
        return OverBudget, f"{asked} and alone exceeds {budget}: ask for fewer tokens", None
    if refused.spent + draw.amount <= draw.capacity:
        also = f", and {asked}" if draw.amount else ""
        return BudgetHeld, f"{left}{also}: come back when one of them has ended", free_in_s
    return OverBudget, f"{left}, and {asked}: ask for fewer tokens; {ends}", until_end_s


def _beside(refused: MeterDecision) -> str:
    return f" while running requests hold {_dollars(refused.held)}" if refused.held else ""


def _budget(draw: Draw) -> str:
    return f"the {_scope(draw)}'s budget of {_dollars(draw.capacity)} for {_window(draw)}"


def _ends(draw: Draw, now: float) -> str:
    period = "day" if len(_window(draw)) == _DAY_CHARS else "month"
    ends_at = datetime.fromtimestamp(round(now + draw.window_ends_in_s), UTC)
    return f"the {period} ends at {ends_at:%Y-%m-%dT%H:%M:%SZ}"


def _scope(draw: Draw) -> str:
    return draw.key.split(":", 1)[0]


def _window(draw: Draw) -> str:
    return draw.key.rpartition(":")[2]


def _reason(draw: Draw) -> str:
    return f"{_scope(draw)}_{draw.measure}"


def _dollars(micro: int) -> str:
    return dollars(max(0, micro))


def rate_headers(draws: Iterable[Draw], remaining: Iterable[int]) -> list[tuple[bytes, bytes]]:
    """Return limit, remaining and reset of requests and tokens, if they have a bound."""
    tightest: dict[Measure, tuple[float, Draw, int]] = {}
    for draw, left in zip(draws, remaining, strict=True):
        if draw.kind is not MeterKind.BUCKET:
            continue
        fullness = left / draw.capacity
        if draw.measure not in tightest or fullness < tightest[draw.measure][0]:
            tightest[draw.measure] = (fullness, draw, left)
    told: list[tuple[bytes, bytes]] = []
    for _, draw, left in tightest.values():
        limit, remaining_name, reset = _NAMES[draw.measure]
        told.append((limit, b"%d" % draw.capacity))
        told.append((remaining_name, b"%d" % max(0, left)))
        told.append((reset, duration((draw.capacity - left) / draw.refill_per_s)))
    return told


def duration(seconds: float) -> bytes:
    """Return seconds in OpenAI's form, ``12ms``, ``8.64s``, ``6m0s``, rounded up."""
    ms = max(0, ceil(seconds * 1000 - ROUNDING_MS))
    if ms < SECOND_MS:
        return b"%dms" % ms
    if ms < MINUTE_MS:
        return f"{ms / SECOND_MS:g}s".encode()
    minutes, rest_ms = divmod(ms, MINUTE_MS)
    return b"%dm%ds" % (minutes, ceil(rest_ms / SECOND_MS))
