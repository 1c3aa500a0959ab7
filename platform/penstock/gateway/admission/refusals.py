"""What a caller is told that a limit refuses: whose limit of what size, when to come back, what is left of each.

A budget's refusal names its window and when that ends. A request that exceeds a limit all by itself is told so, and
not to come back.
"""

from datetime import UTC, datetime

from penstock.domain.errors import ExceedsLimit, OverBudget, OverLimit
from penstock.domain.limits import Draw, Measure
from penstock.domain.money import MicroUsd

CENT = 0.01

_WHAT = {
    Measure.REQUESTS: "requests a minute",
    Measure.TOKENS: "tokens a minute",
    Measure.CONCURRENCY: "requests at a time",
    Measure.STREAMS: "streams at a time",
    Measure.SPEND: "spend",
}
_DAY_CHARS = len("2026-11-21")

Headers = list[tuple[bytes, bytes]]


def refusal(draw: Draw, retry_after_s: float, headers: Headers, now: float) -> OverLimit | OverBudget:
    """Return the error of the limit that refused; ``now`` is Unix seconds."""
    scope = draw.key.split(":", 1)[0]
    reason = f"{scope}_{draw.measure}"
    if draw.measure is Measure.SPEND:
        return OverBudget(_budget(draw, scope, now), retry_after_s=retry_after_s, reason=reason, headers=headers)
    limit = f"the {scope}'s limit of {draw.capacity} {_WHAT[draw.measure]}"
    if draw.amount > draw.capacity:
        return ExceedsLimit(f"this request alone exceeds {limit}", reason=reason, headers=headers)
    return OverLimit(f"{limit} is reached", retry_after_s=retry_after_s, reason=reason, headers=headers)


def _budget(draw: Draw, scope: str, now: float) -> str:
    window = draw.key.rpartition(":")[2]
    period = "day" if len(window) == _DAY_CHARS else "month"
    ends_at = datetime.fromtimestamp(round(now + draw.window_ends_in_s), UTC)
    dollars = MicroUsd(draw.capacity) / 1_000_000
    cap = f"${dollars:,.2f}" if dollars >= CENT else f"${dollars:.6f}"
    return f"the {scope}'s budget of {cap} for {window} is used up; the {period} ends at {ends_at:%Y-%m-%dT%H:%M:%SZ}"
