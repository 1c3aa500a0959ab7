"""Anthropic's rate-limit headers say what OpenAI's say, and name a moment for the reset."""

from datetime import datetime

import pytest

from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.gateway.admission.refusals import duration, rate_headers
from penstock.gateway.calls.rate_limits import anthropics

NOW = 1_795_000_000.0


def test_both_measures_are_told_in_both_forms() -> None:
    """Each of OpenAI's six headers has its counterpart, in Anthropic's order of words."""
    draws = [
        Draw(key=f"tenant:a:v:{one}", kind=MeterKind.BUCKET, measure=one, amount=1, capacity=60, refill_per_s=1.0)
        for one in (Measure.REQUESTS, Measure.TOKENS)
    ]
    told = dict(anthropics(rate_headers(draws, [59, 30]), NOW))
    names = {
        f"anthropic-ratelimit-{measure}-{kind}".encode()
        for measure in ("requests", "tokens")
        for kind in ("limit", "remaining", "reset")
    }
    assert told.keys() == names
    assert told[b"anthropic-ratelimit-tokens-remaining"] == b"30"
    assert anthropics([(b"retry-after", b"3")], NOW) == []


@pytest.mark.parametrize("seconds", [0.0, 0.012, 0.999, 8.64, 59.999, 60.0, 360.0, 86_400.0])
def test_a_reset_is_the_moment_that_the_duration_ends(seconds: float) -> None:
    """Every form that OpenAI's durations have is read, and rounded up to a whole second."""
    told = anthropics([(b"x-ratelimit-reset-requests", duration(seconds))], NOW)
    moment = datetime.fromisoformat(told[0][1].decode()).timestamp()
    assert 0 <= moment - NOW - seconds <= 1.001
