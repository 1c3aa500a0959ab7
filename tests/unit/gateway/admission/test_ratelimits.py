"""Callers see what they have left, in the form their SDKs know."""

import pytest

from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.gateway.admission.refusals import duration
from penstock.gateway.admission.refusals import rate_headers as headers


def bucket(measure: Measure, capacity: int) -> Draw:
    return Draw(
        key="k", kind=MeterKind.BUCKET, measure=measure, amount=1, capacity=capacity, refill_per_s=capacity / 60
    )


def test_the_tightest_scope_is_told() -> None:
    """Of a roomy tenant and a tight key, the key's numbers are sent."""
    draws = [bucket(Measure.REQUESTS, 1000), bucket(Measure.REQUESTS, 60), bucket(Measure.TOKENS, 6000)]
    sent = dict(headers(draws, [900, 30, 5000]))
    assert sent[b"x-ratelimit-limit-requests"] == b"60"
    assert sent[b"x-ratelimit-remaining-requests"] == b"30"
    assert sent[b"x-ratelimit-reset-requests"] == b"30s"
    assert sent[b"x-ratelimit-limit-tokens"] == b"6000"
    assert sent[b"x-ratelimit-reset-tokens"] == b"10s"


def test_slots_and_budgets_send_no_headers() -> None:
    """Only what refills by the minute is a rate."""
    slots = Draw(key="k", kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=1, capacity=5)
    assert headers([slots], [3]) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, b"0ms"),
        (0.0, b"0ms"),
        (0.012, b"12ms"),
        (1.0, b"1s"),
        (8.6401, b"8.641s"),
        (360.0, b"6m0s"),
        (59.9, b"59.9s"),
        (360.2, b"6m1s"),
    ],
)
def test_durations_read_as_openai_writes_them(seconds: float, text: bytes) -> None:
    """Milliseconds, seconds, minutes and seconds, and never too few."""
    assert duration(seconds) == text
